#pragma once

namespace cleave::ops {

// The hyper-parameters of updates as kernels multiply by them.

struct AdamwFactors {
  float gradient_scale;
  float keep1, take1;  // beta1, 1 - beta1
  float keep2, take2;
  float unbias;  // 1 / sqrt(bias_correction2)
  float eps;
  float decay;  // 1 - lr · weight_decay
  float step;   // lr / bias_correction1
};

struct SgdFactors {
  float gradient_scale;
  float decay;  // weight_decay
  float keep;   // momentum
  float lr;
};

struct LionFactors {
  float gradient_scale;
  float keep1, take1;  // beta1, 1 - beta1
  float keep2, take2;
  float decay;  // 1 - lr · weight_decay
  float lr;
};

}  // namespace cleave::ops
