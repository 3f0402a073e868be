#pragma once

#include "cleave/ops/compute.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

// Sums are in f64, in the order of the columns, and rounded once. Threads divide the rows.

/// y = x · inverse for each row, inverse = 1 / its length; rows of zeros stay zeros.
///
///   x        [rows, features]   f32 or bf16
///   y        f32 [rows, features]
///   inverse  f32 [rows]
void unit_rows(Compute& compute, ConstView x, View y, View inverse);

/// dx = (dy - y · <y, dy>) · inverse for each row.
///
///   dy  f32 [rows, features]   dx  [rows, features], dtype of x
void unit_rows_backward(Compute& compute, ConstView dy, ConstView x, ConstView inverse, View dx);

}  // namespace cleave::ops
