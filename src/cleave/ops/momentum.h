#pragma once

#include "cleave/ops/compute.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

// Updates that keep one number, or none, beside each element.

/// One parameter, or a range of one. All dense, of one number of elements.
struct MomentumArgs {
  View master;         // f32
  View momentum = {};  // f32; empty for SGD without momentum
  ConstView gradient;  // f32
  View copy = {};      // bf16, the master rounded; or empty
};

struct SgdHyper {
  double lr = 0;
  double momentum = 0;
  double weight_decay = 0;
  double gradient_scale = 1;  // what clipping multiplies the gradient by
};

/// One pass of SGD as torch.optim.SGD defines it, with weight decay in the gradient:
///
///   g = gradient · gradient_scale + weight_decay · master
///   momentum = hyper.momentum · momentum + g
///   master = master - lr · momentum
///
/// Without momentum, g takes its place.
void sgd(Compute& compute, const MomentumArgs& args, const SgdHyper& hyper);

struct LionHyper {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
  double gradient_scale = 1;
};

/// One pass of Lion (Chen et al., 2023); the sign of zero is zero:
///
///   g = gradient · gradient_scale
///   master = master · (1 - lr · weight_decay) - lr · sign(beta1 · momentum + (1 - beta1) · g)
///   momentum = beta2 · momentum + (1 - beta2) · g
void lion(Compute& compute, const MomentumArgs& args, const LionHyper& hyper);

}  // namespace cleave::ops
