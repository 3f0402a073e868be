#pragma once

#include "cleave/layers/layer.h"
#include "cleave/ops/attention_pool.h"

namespace cleave {

/// Each row divided by its length: x [rows, features] -> y f32 [rows, features].
class UnitRows : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

/// The row of each sequence that the data names: x [sequences · sequence, features] ->
/// y [sequences, features].
class PickedRow : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

/// A learned query attends to all rows of each sequence: x [sequences · sequence, 2 · features] ->
/// y [sequences, features].
class AttentionPool : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;

 private:
  ops::PoolShape shape() const;
};

}  // namespace cleave
