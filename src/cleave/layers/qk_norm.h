#pragma once

#include "cleave/layers/layer.h"

namespace cleave {

/// Root-mean-square norms of q and of k inside rows that hold q, k and v; v is copied. Like the
/// other norms it sums its weight gradients in I, and keeps the sums for W.
class QkNorm : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;

 private:
  const QkNormAttributes& attributes() const { return spec().as<QkNormAttributes>(); }
  /// Copies what follows the last part.
  void copy_rest(ops::Compute& compute, ConstView from, View to) const;
};

}  // namespace cleave
