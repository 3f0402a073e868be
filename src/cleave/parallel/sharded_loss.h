#pragma once

#include "cleave/ops/cross_entropy.h"
#include "cleave/parallel/sharded_layer.h"

namespace cleave::parallel {

/// The head with its vocabulary cut into shards (spec::sharded_loss): x [tokens, features] ->
/// y f32 [tokens], the same on every device.
///
/// Each shard has the largest of its logits, the sum of their exponentials and the target's logit,
/// three numbers per token. Every device gets them from all shards and merges them in the order of
/// the shards.
class ShardedLoss : public ShardedLayer {
 public:
  ShardedLoss(const LayerSpec& spec, TensorGroup* group);

  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;
  /// x is gathered for W while I computes, and dx summed up while W does.
  void backward(ops::Compute& compute, const LayerCall& call) override;
  std::int64_t scratch_bytes(ops::Compute& compute) const override;

 private:
  /// I of all shards: the sum of their dx over this device.
  View input_of_shards(ops::Compute& compute, const LayerCall& call, std::byte* slots);
  void weight_of_shards(ops::Compute& compute, const LayerCall& call, ConstView x);

  const ShardedLossAttributes& attributes() const { return spec().as<ShardedLossAttributes>(); }
  TensorSpec whole_x() const;
  std::int64_t state_bytes() const;
  /// The logits of a shard of this device, or their gradient.
  ops::VocabBlock block(const LayerCall& call, int k) const;
};

}  // namespace cleave::parallel
