#pragma once

#include <cstdint>
#include <string>

#include "cleave/spec/layer_spec.h"
#include "cleave/spec/layers.h"
#include "cleave/spec/model_shape.h"
#include "cleave/spec/tensor_share.h"

namespace cleave::spec {

/// Block `index` of a GPT or a Llama, or what `share` has of it.
SegmentSpec block(const ModelShape& shape, const Flow& flow, const TensorShare& share,
                  std::int64_t index);

/// A norm of the residual stream, of the kind that the model has.
LayerSpec residual_norm(const ModelShape& shape, const Flow& flow, const TensorShare& share,
                        const std::string& name);

/// The token table and, if the model has one, the table of positions.
struct EmbeddingNames {
  std::string tokens;
  std::string positions;
};
LayerSpec model_embedding(const ModelShape& shape, const Flow& flow, const TensorShare& share,
                          const EmbeddingNames& names);

}  // namespace cleave::spec
