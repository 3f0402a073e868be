#pragma once

#include "cleave/layers/layer.h"

namespace cleave {

/// The end of a classifier: x [samples, classes] are logits; y f32 [2, samples] their cross-entropy
/// against the labels, and whether the label has the highest of them.
class ClassLoss : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

}  // namespace cleave
