#pragma once

#include "cleave/ops/compute.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

struct AdamwHyper {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double bias_correction1 = 1;  // 1 - beta1^step
  double bias_correction2 = 1;  // 1 - beta2^step
  double gradient_scale = 1;    // what clipping multiplies the gradient by
};

/// One parameter, or a range of one. All dense, of one number of elements.
struct AdamwArgs {
  View master;         // f32
  View m;              // f32
  View v;              // f32
  ConstView gradient;  // f32
  View copy = {};      // bf16, the master rounded; or empty
};

/// One pass of AdamW as torch.optim.AdamW defines it (Loshchilov and Hutter, 2019):
///
///   g = gradient · gradient_scale
///   m = beta1 · m + (1 - beta1) · g
///   v = beta2 · v + (1 - beta2) · g²
///   master = master · (1 - lr · weight_decay)
///            - lr / bias_correction1 · m / (sqrt(v / bias_correction2) + eps)
void adamw(Compute& compute, const AdamwArgs& args, const AdamwHyper& hyper);

}  // namespace cleave::ops
