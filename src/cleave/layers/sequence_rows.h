#pragma once

#include "cleave/layers/layer.h"

namespace cleave {

/// A learned row before the rows of each sequence, and learned positions on all of them.
/// x [sequences · (sequence - 1), features] -> y [sequences · sequence, features].
class ClassToken : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;
};

/// Learned positions on the rows of each sequence: x and y [sequences · sequence, features].
class Positions : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;
};

/// The first row of each sequence: x [sequences · sequence, features] -> y [sequences, features].
class FirstRow : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

/// The last row of each sequence: x [sequences · sequence, features] -> y [sequences, features].
class LastRow : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

/// All rows of each sequence but the first: x [sequences · sequence, features] ->
/// y [sequences · (sequence - 1), features].
class WithoutFirst : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

}  // namespace cleave
