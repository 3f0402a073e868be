#pragma once

#include "cleave/layers/layer.h"

namespace cleave {

/// Each square of rows becomes one row: x [sequences · sequence, features] ->
/// y [sequences · sequence / by², by² · features].
class PixelShuffle : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

/// Rows of images take their places among the embeddings of a text: x [rows, features] ->
/// y [tokens, features].
class ImageJoin : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;
};

/// y = x; what made x was computed before the run.
class KeptRows : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

/// Rows of images are added to those of a text where they stand in it.
class AddRows : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

}  // namespace cleave
