#pragma once

#include "cleave/layers/layer.h"

namespace cleave {

// Both norms sum their weight gradients in I, in the same pass that makes dx, and keep the sums
// [hidden] for W instead of dy [tokens, hidden].

/// y = (x - mean) / deviation · weight + bias, for each token.
class Layernorm : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;
  bool adds_branch() const override { return true; }
};

/// y = x / root mean square · weight, or · (1 + weight), for each token.
class Rmsnorm : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;
  bool adds_branch() const override { return true; }
};

}  // namespace cleave
