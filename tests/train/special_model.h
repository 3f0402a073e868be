#pragma once

#include "support/tiny_model.h"

namespace cleave::testing {

/// The other families, as small and with all that is special about them.
inline Graph special_model(const model::Family* kind, DType dtype) {
  ModelShape shape = tiny_shape(kind, /*layers=*/2);
  if (kind == &model::cnn) {
    shape = {.kind = kind, .layers = 2, .hidden = 12, .heads = 1, .kv_heads = 1, .ffn = 20};
    shape.vocab = shape.classes = kVocabulary;
    shape.context = 16 * 16 + 1;
    shape.image = 16;
    shape.patch = shape.channels = 1;
    shape.tie_embeddings = false;
  } else if (!kind->reads_images) {
    shape.kv_heads = 2;
    shape.tie_embeddings = false;
    shape.window = kind == &model::mistral || kind == &model::qwen2 ? 5 : 0;
    if (kind == &model::gemma3) {
      shape.window = 5;
      shape.full_every = 2;
    }
    shape.nope_every = kind == &model::smollm3 ? 2 : 0;
    shape.rotary_dim = kind == &model::phi3 ? 4 : 0;
  }
  return model::graph_of(
      shape, {.sequences = kind->reads_images ? 4 : 1, .sequence = kSequence, .dtype = dtype});
}

}  // namespace cleave::testing
