#pragma once

#include "cleave/layers/layer.h"

namespace cleave {

/// y = x + skip. The gradient passes through to x as it is, and reaches the skipped tensor as `add`
/// of the layer that reads it.
class Residual : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

}  // namespace cleave
