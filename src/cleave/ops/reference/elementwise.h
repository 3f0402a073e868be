#pragma once

#include "cleave/ops/elementwise.h"
#include "cleave/tensor/view.h"

/// Element by element, for matrices.
namespace cleave::ops::reference {

void add(ConstView a, ConstView b, View out);
void weighted_sum(const Weighted& a, const Weighted& b, View out);
void scale(ConstView a, float factor, View out);
void copy(ConstView a, View out);

/// out += the sums of the columns of `a`, in f64.
void add_column_sums(ConstView a, View out);

}  // namespace cleave::ops::reference
