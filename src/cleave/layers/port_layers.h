#pragma once

#include "cleave/layers/layer.h"

namespace cleave {

/// y = x + what comes in at a port; both get dy.
class AddPort : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

/// At each place of a row the features of x, then those that come in at a port.
class ConcatPort : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

}  // namespace cleave
