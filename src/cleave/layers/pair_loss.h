#pragma once

#include "cleave/layers/layer.h"

namespace cleave {

/// What losses over pairs of image and text have in common: x f32 [samples, 2 · features] holds the
/// unit rows of both, collected[0] those of all samples of the step. I makes the gradient of the
/// rows of its microbatch, in which every sum runs over the samples of the step in their order:
/// bits do not depend on how the step is cut into microbatches and replicas.
class PairLoss : public Layer {
 public:
  using Layer::Layer;
  std::int64_t scratch_bytes(ops::Compute& compute) const override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;

 protected:
  enum class Side { Image, Text };
  static Side other(Side side) { return side == Side::Image ? Side::Text : Side::Image; }

  /// Columns of one side of rows [samples, 2 · features].
  static View of(View rows, Side side);
  static View own_rows(const LayerCall& call);
  std::int64_t samples() const { return spec().collected[0].shape[0]; }
  std::int64_t rows() const { return spec().x.shape[0]; }

  /// exp of the parameter that multiplies the products.
  float factor() const;
  /// The single element of a parameter.
  float number(int index) const;
  void keep_number(View to, double value) const;
  /// logits [own rows of a side, samples] = products with all rows of the other side, scaled.
  void logits(ops::Compute& compute, View own, View all, View out) const;
  /// The gradient by the scale's logarithm: <image, dimage> over the rows of the microbatch, since
  /// the loss knows an image by its products alone.
  void keep_scale_gradient(const LayerCall& call) const;
};

/// Each image among all texts, each text among all images: cross-entropy, halved.
class ContrastiveLoss : public PairLoss {
 public:
  using PairLoss::PairLoss;
  void begin_step(ops::Compute& compute, const LayerCall& call) override;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;

 protected:
  void fill_constants() override;

 private:
  void gradient_of(Side side, ops::Compute& compute, const LayerCall& call);
};

/// A yes or no for every image and text.
class SigmoidLoss : public PairLoss {
 public:
  using PairLoss::PairLoss;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
};

}  // namespace cleave
