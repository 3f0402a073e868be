#pragma once

#include <cstdint>

#include "cleave/ops/compute.h"
#include "cleave/spec/map_spec.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

// Images whose channels lie side by side: [samples, height · width · channels], f32 or bf16. Views
// of one call have one dtype unless said otherwise. Threads divide the samples; sums are f64 and
// rounded once.

/// y = x inside a margin of zeros.
///
///   y  [samples, (height + 2 · margin) · (width + 2 · margin) · channels]
void pad(Compute& compute, const MapShape& map, std::int64_t margin, ConstView x, View y);
/// The transpose of pad: x = y without its margin. `map` is that of x.
void crop(Compute& compute, const MapShape& map, std::int64_t margin, ConstView y, View x);

/// Every pixel becomes a square of `by` x `by`.
///
///   y  [samples, height · by · width · by · channels]
void upsample(Compute& compute, const MapShape& map, std::int64_t by, ConstView x, View y);
/// The transpose of upsample: x is the sum of each square of y. `map` is that of x.
void sum_squares(Compute& compute, const MapShape& map, std::int64_t by, ConstView y, View x);

/// y [samples, channels] is the mean over the pixels of x [samples, pixels · channels].
void mean_pixels(Compute& compute, ConstView x, View y);
/// dx = dy / pixels, at every pixel.
void mean_pixels_backward(Compute& compute, ConstView dy, View dx);

/// y = (x - mean) · rstd · weight + bias, where mean and variance are those of a group of
/// neighbouring channels over all pixels, rstd = 1 / sqrt(variance + eps).
struct GroupNormArgs {
  ConstView x;       // [samples, pixels · channels]
  ConstView weight;  // [channels]
  ConstView bias;    // [channels]
  std::int64_t groups = 1;
  float eps = 1e-5f;
  View y;     // [samples, pixels · channels]
  View mean;  // f32 [samples, groups]
  View rstd;  // f32 [samples, groups]
};
void group_norm(Compute& compute, const GroupNormArgs& args);

struct GroupNormBackwardArgs {
  ConstView dy;      // [samples, pixels · channels]
  ConstView x;       // [samples, pixels · channels]
  ConstView weight;  // [channels]
  ConstView mean;    // f32 [samples, groups]
  ConstView rstd;    // f32 [samples, groups]
  View dx;           // [samples, pixels · channels]
};
void group_norm_backward(Compute& compute, const GroupNormBackwardArgs& args);

/// Adds Σ dy · x̂ to dweight and Σ dy to dbias, over samples and pixels.
struct GroupNormSums {
  ConstView dy;    // [samples, pixels · channels]
  ConstView x;     // [samples, pixels · channels]
  ConstView mean;  // f32 [samples, groups]
  ConstView rstd;  // f32 [samples, groups]
  View dweight;    // f32 [channels], or empty
  View dbias;      // f32 [channels], or empty
};
void add_group_norm_gradients(Compute& compute, const GroupNormSums& args);

}  // namespace cleave::ops
