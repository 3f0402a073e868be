#pragma once

#include "cleave/model/family.h"

namespace cleave::testing {

/// Every parameter is a multiple of 32 elements, so that nothing is padded.
inline Graph unpadded_model(const model::Family* kind = &model::gpt, std::int64_t layers = 4,
                            std::int64_t loss_blocks = 1) {
  const ModelShape shape{.kind = kind,
                         .layers = layers,
                         .hidden = 128,
                         .heads = 4,
                         .kv_heads = 4,
                         .ffn = 512,
                         .vocab = 256,
                         .context = 32,
                         .tie_embeddings = false};
  return model::graph_of(shape, {.sequences = 1, .sequence = 32, .dtype = DType::BF16},
                         loss_blocks);
}

}  // namespace cleave::testing
