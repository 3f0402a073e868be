#pragma once

#include "cleave/layers/layer.h"
#include "cleave/ops/embedding.h"

namespace cleave {

/// y = table[x] + positions; x i32 [tokens], y [tokens, features]. Has no dx. As kind
/// "packed_embedding" its table has packed rows, which do not learn.
class Embedding : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;

 private:
  ops::VocabRows rows() const;
  bool has_positions() const { return spec().parameters.size() > 1; }
};

}  // namespace cleave
