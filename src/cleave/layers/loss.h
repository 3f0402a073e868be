#pragma once

#include "cleave/layers/layer.h"

namespace cleave {

/// The head: y f32 [tokens] = cross-entropy of the logits x · wᵀ against the targets, w
/// [vocabulary, features]. x [tokens, features].
///
/// With one block, F keeps the logits in the model's dtype, I turns them in place into their own
/// gradient, and W reads that. With several blocks of the vocabulary nothing is kept but one number
/// per token: I and W each compute the logits once more, block by block, in scratch.
class Loss : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;
  std::int64_t scratch_bytes(ops::Compute& compute) const override;

 private:
  struct Block;
  /// Calls `visit` on every block of the vocabulary, its logits computed from x.
  template <class Visit>
  void for_each_block(ops::Compute& compute, const LayerCall& call, Visit&& visit);
};

}  // namespace cleave
