#pragma once

#include "cleave/ops/compute.h"
#include "cleave/spec/norm_weight.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

// All views but the statistics and the weight gradients have the dtype of x. Sums are f32. dx and y
// may be the same memory as dy and x.

/// y = (x - mean) · rstd · weight + bias for each token, rstd = 1 / sqrt(variance + eps).
struct LayernormArgs {
  ConstView x;          // [tokens, hidden]
  ConstView weight;     // [hidden]
  ConstView bias = {};  // [hidden]
  float eps = 1e-5f;
  View y;          // [tokens, hidden]
  View mean = {};  // f32 [tokens], or empty when nothing will be differentiated
  View rstd = {};  // f32 [tokens], or empty
};
void layernorm(Compute& compute, const LayernormArgs& args);

/// Needs layernorm_backward_scratch_bytes(tokens, hidden) of scratch.
struct LayernormBackwardArgs {
  ConstView dy;         // [tokens, hidden]
  ConstView x;          // [tokens, hidden]
  ConstView weight;     // [hidden]
  ConstView mean = {};  // f32 [tokens]
  ConstView rstd;       // f32 [tokens]
  ConstView add = {};   // [tokens, hidden], added into dx: the residual branch; or empty
  View dx;              // [tokens, hidden]
  View dweight;         // f32 [hidden], overwritten by the sum over these tokens
  View dbias = {};      // f32 [hidden], likewise
};
void layernorm_backward(Compute& compute, const LayernormBackwardArgs& args);

/// y = x · rstd · weight for each token, rstd = 1 / sqrt(mean of squares + eps).
struct RmsnormArgs {
  ConstView x;       // [tokens, hidden]
  ConstView weight;  // [hidden]
  NormWeight form = NormWeight::Plain;
  float eps = 1e-5f;
  View y;          // [tokens, hidden]
  View rstd = {};  // f32 [tokens], or empty
};
void rmsnorm(Compute& compute, const RmsnormArgs& args);

/// Needs rmsnorm_backward_scratch_bytes(tokens, hidden) of scratch.
struct RmsnormBackwardArgs {
  ConstView dy;      // [tokens, hidden]
  ConstView x;       // [tokens, hidden]
  ConstView weight;  // [hidden]
  NormWeight form = NormWeight::Plain;
  ConstView rstd;      // f32 [tokens]
  ConstView add = {};  // [tokens, hidden], added into dx; or empty
  View dx;             // [tokens, hidden]
  View dweight;        // f32 [hidden], overwritten by the sum over these tokens
};
void rmsnorm_backward(Compute& compute, const RmsnormBackwardArgs& args);

}  // namespace cleave::ops
