#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/spec/layer_spec.h"
#include "cleave/spec/layers.h"
#include "cleave/spec/model_shape.h"
#include "cleave/spec/tensor_share.h"

namespace cleave {

/// A model as data: the embedding, the blocks, the head.
struct ModelSpec {
  ModelShape shape;
  spec::Flow flow;
  std::int64_t loss_blocks = 1;
  TensorShare share;
  std::vector<SegmentSpec> segments;
};

/// The layers of `shape` for microbatches of `flow`; `loss_blocks` > 1 computes the loss in that
/// many blocks of the vocabulary and keeps no logits. Parameter names and shapes are those of the
/// Hugging Face checkpoints of the same architecture. Throws UserError if the sequence exceeds the
/// context, or the model cannot be cut into the shards of `share`.
ModelSpec model_spec(const ModelShape& shape, const spec::Flow& flow, std::int64_t loss_blocks = 1,
                     const TensorShare& share = {});

/// Throws UserError, saying what would do, unless the model can be cut into the shards of `share`.
void check(const ModelShape& shape, const spec::Flow& flow, const TensorShare& share);

/// Counts a tied weight once.
std::int64_t parameter_count(const ModelSpec& model);

std::int64_t flops(const ModelSpec& model);

}  // namespace cleave
