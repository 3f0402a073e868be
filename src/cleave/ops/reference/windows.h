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

void max_pool(const WindowShape& shape, ConstView x, View y);

}  // namespace cleave::ops::reference
