#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/spec/layer_spec.h"
#include "cleave/spec/layers.h"
#include "cleave/spec/tensor_share.h"

namespace cleave::spec {

/// What a sharded layer is made of.
struct ShardedShape {
  std::vector<std::vector<LayerSpec>> chains;  ///< one for each shard of the device, all alike
  AfterSum after = AfterSum::Nothing;
  ParameterSpec added = {};   ///< what is added after the sum: a bias or the table of positions
  SharedColumns shared = {};  ///< of the first layer's y
};

/// kind "sharded": y = the sum over all shards of chain(x), by the pairwise tree over their
/// numbers; then, once, what `after` adds. The chains of a device run one after another. With
/// sequence parallelism x (unless it is token ids) and y hold the device's own tokens: x is
/// gathered before, y scattered behind, dy and dx likewise, and W gathers x once more.
///
///     x ──┬─ column linear ─ attention ─ row linear ─┬─ Σ ─ + bias ─ y
///         └─ column linear ─ attention ─ row linear ─┘
///                        (one row per shard)
LayerSpec sharded(const std::string& name, const Flow& flow, const TensorShare& share,
                  ShardedShape shape);

/// kind "sharded_loss": the head with the vocabulary cut into shards. x [tokens, features], of the
/// device's own tokens with sequence parallelism; y f32 [tokens] of all tokens, the same on every
/// device. Parameters: the weight's rows of each shard of the device.
struct ShardedLossShape {
  std::int64_t vocabulary = 0;
  std::int64_t features = 0;
  std::string weight = {};  ///< name of the whole tensor
  std::string tied_to =
      {};  ///< name of the whole tensor that it shares its values with; empty: none
};
LayerSpec sharded_loss(const std::string& name, const Flow& flow, const TensorShare& share,
                       const ShardedLossShape& shape);

/// Where a shard's entries of the vocabulary begin; they need not be equally many.
std::int64_t vocabulary_border(std::int64_t vocabulary, const TensorShare& share, int shard);

/// The name of what shard `local` of a device has of a parameter.
std::string shard_name(const std::string& whole, int local);

/// kind "token_sliced": `slice`, a norm for the tokens of one of the grid's slices, over the tokens
/// of the device. The gradients of its parameters are summed slice by slice, then over the slices.
LayerSpec token_sliced(const Flow& flow, const TensorShare& share, LayerSpec slice);

}  // namespace cleave::spec
