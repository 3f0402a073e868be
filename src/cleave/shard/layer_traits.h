#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "cleave/shard/sharded.h"
#include "cleave/shard/tensor_share.h"
#include "cleave/spec/layer_spec.h"

namespace cleave::shard {

/// One of the `of` shards that a layer is cut into; `local` counts them on its device.
struct ShardNumber {
  int index = 0;
  int of = 1;
  int local = 0;
};

/// What a shard reads: all features of x, or only those that the layer before it gives this shard.
enum class ShardReads : std::uint8_t { All, Own };
/// What a shard gives: features of its own, or a tensor that all shards' results are added to.
enum class ShardGives : std::uint8_t { Own, Addend };

/// What one shard computes of a layer.
struct LayerShard {
  LayerSpec layer;
  ShardReads reads = ShardReads::Own;
  ShardGives gives = ShardGives::Own;
  AddedOnce added = {};       ///< after the sum, if `gives` is Addend
  SharedColumns shared = {};  ///< of y, if neighbouring shards have the same features
};

/// What the tensor axis may do with layers of a kind. Each is empty where the kind cannot do it; a
/// kind with none of them is computed whole on every device of the group.
struct LayerTraits {
  /// A shard of the layer, by the rules of its parameters; nothing if those say that it is whole.
  std::function<std::optional<LayerShard>(const LayerSpec& whole, const ShardNumber& shard)> cut =
      {};

  /// The same layer for fewer rows, where every row of y depends on the same row of x alone (and
  /// of what it skips to), as does what it keeps for I. Its parameters stay as they are, and their
  /// gradients are then summed in slices of rows.
  std::function<LayerSpec(const LayerSpec& whole, std::int64_t rows)> with_rows = {};

  /// What a device has of a layer that talks to the others in a way of its own; nothing if the
  /// rules of its parameters say that it is whole.
  std::function<std::optional<LayerSpec>(const LayerSpec& whole, const TensorShare& share)> share =
      {};
};

/// The traits of a kind; all empty for a kind that nobody described.
using TraitsOf = std::function<LayerTraits(std::string_view kind)>;

}  // namespace cleave::shard
