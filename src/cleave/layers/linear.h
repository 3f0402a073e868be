#pragma once

#include "cleave/layers/layer.h"

namespace cleave {

/// y = x · w + bias, w [in, out] or, transposed, [out, in].
class Linear : public Layer {
 public:
  using Layer::Layer;

  /// x [tokens, in] -> y [tokens, out]
  void forward(ops::Compute& compute, const LayerCall& call) override;
  /// dy [tokens, out] -> dx [tokens, in]
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;

 private:
  bool transposed() const { return spec().as<LinearAttributes>().weight == Transpose::Yes; }
  bool has_bias() const { return spec().as<LinearAttributes>().bias == Bias::Add; }
  /// [in, out], whichever way it is stored.
  ConstView weight() const;
};

}  // namespace cleave
