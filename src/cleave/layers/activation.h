#pragma once

#include "cleave/layers/layer.h"

namespace cleave {

/// y = gelu(x), in one of its forms; x, y [tokens, features].
class Gelu : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

/// y = silu(gate) · up; x [tokens, 2·features] holds gate, then up; y [tokens, features].
class Swiglu : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

/// y = gelu(gate) · up, likewise.
class Geglu : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

}  // namespace cleave
