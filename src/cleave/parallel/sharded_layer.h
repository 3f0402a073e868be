#pragma once

#include "cleave/layers/layer.h"
#include "cleave/parallel/partial_sums.h"
#include "cleave/parallel/tensor_group.h"
#include "cleave/shard/sharded.h"

namespace cleave::parallel {

/// What layers of shards have in common: x of all tokens, and one sum over all shards.
class ShardedLayer : public Layer {
 protected:
  /// `group` is null where nothing runs, or one device has all shards.
  ShardedLayer(const LayerSpec& spec, const ShardAxis& axis, TensorGroup* group)
      : Layer(spec), axis_(axis), group_(group) {}

  const ShardAxis& axis() const { return axis_; }
  TensorGroup& group() { return *group_; }

  /// Whether activations outside the shards hold the tokens of this device only.
  bool divided() const { return axis_.own_tokens != axis_.tokens; }

  /// Bytes after the first slot, or of all slots, that the sum of the device's shards takes.
  std::int64_t sum_bytes(const TensorSpec& tensor) const;
  /// The sum, in `room`, of tensors like `whole`; it ends up in `out` where that has all tokens.
  PartialSums partial_sums(const TensorSpec& whole, View out, std::byte* room) const;

  /// `own` rows of every device, in `whole`.
  View gather(ops::Compute& compute, ConstView own, View whole);
  /// The sum over the devices; where the tokens are divided, this device's rows of it.
  View reduce(View sum);

  /// The same two, which only begin. `workspace` has reduce_workspace() bytes.
  comm::Pending start_gather(ops::Compute& compute, ConstView own, View whole);
  comm::Pending start_reduce(View sum, std::byte* workspace);
  /// Moves messages of the group on; called after every product.
  void progress() {
    if (group_ != nullptr) group_->progress();
  }
  std::int64_t reduce_workspace(const TensorSpec& whole) const;

 private:
  ShardAxis axis_;
  TensorGroup* group_;
};

}  // namespace cleave::parallel
