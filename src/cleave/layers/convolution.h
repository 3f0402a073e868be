#pragma once

#include "cleave/layers/layer.h"

namespace cleave {

/// Squares of images, each a row of a product: x [samples, height · width · channels] ->
/// y [samples, places · out], w [out, channels · size²]. The rows are in scratch, made anew by W.
class Convolution : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;
  std::int64_t scratch_bytes(ops::Compute& compute) const override;
};

/// The largest value of each square, channel by channel.
class MaxPool : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

/// y = max(x, 0).
class Relu : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

/// Channels side by side become channels one after another.
class ChannelsFirst : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

}  // namespace cleave
