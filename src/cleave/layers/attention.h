#pragma once

#include "cleave/layers/layer.h"

namespace cleave {

/// Causal attention. x [tokens, (heads + 2·kv_heads)·head_dim] holds q, then k, then v of each
/// token; y [tokens, heads·head_dim]. With rotary positions F turns q and k in place, and I turns
/// their gradients back.
class Attention : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  std::int64_t scratch_bytes(ops::Compute& compute) const override;

 protected:
  void fill_constants() override;

 private:
  const AttentionAttributes& attributes() const { return spec().as<AttentionAttributes>(); }
  bool rotary() const { return attributes().rope_theta > 0; }
};

}  // namespace cleave
