#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/shard/tensor_share.h"
#include "cleave/spec/layer_spec.h"

namespace cleave {

/// The shards of a device among all, and the rows that it holds outside them.
struct ShardAxis {
  int devices = 1;
  int rank = 0;
  int local = 1;                ///< shards of each device
  std::int64_t tokens = 0;      ///< rows of a microbatch
  std::int64_t own_tokens = 0;  ///< rows that the device holds outside the shards

  friend bool operator==(const ShardAxis&, const ShardAxis&) = default;
};

/// Columns [first, first + columns) of a tensor that every shard of a group of `shards` neighbours
/// computes for itself: keys and values of a head that they share.
struct SharedColumns {
  std::int64_t first = 0;
  std::int64_t columns = 0;
  int shards = 1;

  friend bool operator==(const SharedColumns&, const SharedColumns&) = default;
};

/// What a layer of shards adds after their sum.
enum class AfterSum : std::uint8_t { Nothing, Bias, Positions };

struct AddedOnce {
  AfterSum what = AfterSum::Nothing;
  ParameterSpec parameter = {};  ///< the bias, or the table of positions
  std::int64_t sequence = 0;     ///< rows after which positions begin anew

  friend bool operator==(const AddedOnce&, const AddedOnce&) = default;
};

/// Where a layer of a chain of shards finds its tensors: indices into what the wrapping layer
/// keeps.
struct ShardLink {
  int y = -1;             ///< kept_by_forward; -1: F alone needs it
  int kept = 0;           ///< kept_by_forward: the first of its own
  int dx = -1;            ///< kept_by_input; -1: I alone needs it
  int kept_by_input = 0;  ///< kept_by_input: the first of its own

  friend bool operator==(const ShardLink&, const ShardLink&) = default;
};

struct ShardedAttributes {
  ShardAxis axis;
  std::vector<std::vector<LayerSpec>> chains = {};  ///< [shard of the device]
  std::vector<std::vector<ShardLink>> links = {};   ///< [shard of the device][layer]
  bool from_data = false;                           ///< x is whole on every device, and wants no dx
  AfterSum after = AfterSum::Nothing;
  std::int64_t sequence = 0;  ///< rows after which the positions added begin anew
  SharedColumns shared = {};

  friend bool operator==(const ShardedAttributes&, const ShardedAttributes&) = default;
};

struct ShardedLossAttributes {
  ShardAxis axis;
  std::vector<std::int64_t> first = {};  ///< [shard of the device] entry of the vocabulary

  friend bool operator==(const ShardedLossAttributes&, const ShardedLossAttributes&) = default;
};

struct TokenSlicedAttributes {
  ShardAxis axis;
  std::vector<LayerSpec> slices = {};  ///< of the device's rows, in order: the layer for each

  friend bool operator==(const TokenSlicedAttributes&, const TokenSlicedAttributes&) = default;
};

namespace shard {

ShardAxis axis_of(std::int64_t rows, const TensorShare& share);

/// What a sharded layer is made of.
struct ShardedShape {
  std::vector<std::vector<LayerSpec>> chains = {};  ///< one for each shard of the device, all alike
  bool from_data = false;
  AddedOnce added = {};
  SharedColumns shared = {};  ///< of the first layer's y
};

/// kind "sharded": y = the sum over all shards of chain(x), by the pairwise tree over their
/// numbers; then, once, what is added. The chains of a device run one after another. With sequence
/// parallelism x (unless it comes from the data) and y hold the device's own rows: x is gathered
/// before, y scattered after, dy and dx likewise, and W gathers x once more.
///
///     x ──┬─ column linear ─ attention ─ row linear ─┬─ Σ ─ + bias ─ y
///         └─ column linear ─ attention ─ row linear ─┘
///                        (one row per shard)
LayerSpec sharded(const std::string& name, const TensorShare& share, ShardedShape shape);

/// kind "sharded_loss": the head with the vocabulary cut into shards. x [tokens, features], of the
/// device's own rows with sequence parallelism; y f32 [tokens] of all rows, the same on every
/// device. Parameters: the weight's rows of each shard of the device.
LayerSpec sharded_loss(const LayerSpec& whole, const TensorShare& share);

/// kind "token_sliced": `slices`, the layer for the rows of each of the grid's slices that the
/// device has, of all `rows` of a microbatch or of its own. The gradients of its parameters are
/// summed slice by slice, then over the slices.
LayerSpec token_sliced(std::int64_t rows, const TensorShare& share, std::vector<LayerSpec> slices);

}  // namespace shard
}  // namespace cleave
