#pragma once

#include "cleave/ops/embedding.h"

namespace cleave::ops::reference {

void embedding(const EmbeddingArgs& args);
void embedding_backward(ConstView ids, ConstView dy, View dtable, float scale = 1);
void position_backward(ConstView dy, std::int64_t sequence, View dpositions);

}  // namespace cleave::ops::reference
