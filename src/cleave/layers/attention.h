#pragma once

#include "cleave/layers/layer.h"

namespace cleave {

/// Attention, as its AttentionShape says. x [tokens, (heads + 2·kv_heads)·head_dim] holds q, then
/// k, then v of each token; y [tokens, heads·head_dim]. With rotary positions F turns q and k in
/// place, and I turns their gradients back. With a cache, x is what follows the first `position`
/// tokens of one sequence: F adds their keys and values to the cache and attends to all of it.
class Attention : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  std::int64_t scratch_bytes(ops::Compute& compute) const override;

 protected:
  void fill_constants() override;

 private:
  /// The part of F that follows the rotation, against the cache.
  void attend_to_cache(ops::Compute& compute, const LayerCall& call);
  const AttentionAttributes& attributes() const { return spec().as<AttentionAttributes>(); }
  bool rotary() const { return !attributes().rope.frequencies.empty(); }
};

}  // namespace cleave
