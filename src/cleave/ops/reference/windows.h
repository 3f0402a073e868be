#pragma once

#include "cleave/spec/window_spec.h"
#include "cleave/tensor/view.h"

/// What slides over images, as written on paper.
namespace cleave::ops::reference {

/// y[s, place, o] = bias[o] + Σ x · w[o, c, ky, kx]: a convolution, in f64.
///
///   x  [samples, height · width · channels]   w  [out, channels · size²]   bias  [out]
///   y  [samples, places · out]
void convolution(const WindowShape& shape, ConstView x, ConstView w, ConstView bias, View y);

/// columns [samples · places, channels · size²] of x, value by value.
void unfold(const WindowShape& shape, ConstView x, View columns);

/// The sums of fold(), pixel by pixel: f32, the places that cover it first to last.
void fold(const WindowShape& shape, ConstView columns, View x);

void max_pool(const WindowShape& shape, ConstView x, View y);

/// dy to the first of the largest values of each square, or to its last NaN.
void max_pool_backward(const WindowShape& shape, ConstView x, ConstView dy, View dx);

}  // namespace cleave::ops::reference
