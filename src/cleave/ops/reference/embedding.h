#pragma once

#include "cleave/ops/embedding.h"

namespace cleave::ops::reference {

/// Number `index` of a packed row that has `numbers` of them.
float packed_number(ConstView rows, std::int64_t row, std::int64_t numbers, std::int64_t index);

void embedding(const EmbeddingArgs& args);
void embedding_backward(ConstView ids, ConstView dy, View dtable, float scale = 1,
                        std::int64_t still = -1);
void position_backward(ConstView dy, std::int64_t sequence, View dpositions);

}  // namespace cleave::ops::reference
