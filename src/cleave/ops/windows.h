#pragma once

#include <cstdint>

#include "cleave/ops/compute.h"
#include "cleave/spec/window_spec.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

// Squares that slide over images whose channels lie side by side: [samples, height · width ·
// channels], f32 or bf16. Views of one call have one dtype. Threads divide the samples.

/// A row for each place of the square: the values of one channel after another, row by row.
///
///   x        [samples, height · width · channels]
///   columns  [samples · out_height · out_width, channels · size²]
void unfold(Compute& compute, const WindowShape& shape, ConstView x, View columns);

/// The transpose of unfold: every value of x gets the sum of its places in the rows, in the order
/// of the squares, in f32 and rounded once.
void fold(Compute& compute, const WindowShape& shape, ConstView columns, View x);

/// The largest value of each square, channel by channel; NaN if there is one.
///
///   y  [samples, out_height · out_width · channels]
void max_pool(Compute& compute, const WindowShape& shape, ConstView x, View y);

/// dx = dy where a value was the first of the largest in its square, else 0. Squares must not
/// overlap.
void max_pool_backward(Compute& compute, const WindowShape& shape, ConstView x, ConstView dy,
                       View dx);

/// y = max(x, 0); NaN stays NaN.
void relu(Compute& compute, ConstView x, View y);
/// dx = 0 where x ≤ 0, else dy.
void relu_backward(Compute& compute, ConstView x, ConstView dy, View dx);

/// Channels side by side become channels one after another, and back.
///
///   x, y  [samples, pixels · channels]
void to_channels_first(Compute& compute, std::int64_t channels, ConstView x, View y);
void to_channels_last(Compute& compute, std::int64_t channels, ConstView x, View y);

}  // namespace cleave::ops
