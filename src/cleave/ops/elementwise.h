#pragma once

#include "cleave/ops/compute.h"
#include "cleave/spec/matmul_spec.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

// Views of one call have one shape, of any rank; rows (the last dim) are contiguous, the other dims
// may have any stride. `out` may be the same memory as an argument.

/// out = a + b; all of one dtype.
void add(Compute& compute, ConstView a, ConstView b, View out);

/// out = a · factor; both of one dtype.
void scale(Compute& compute, ConstView a, float factor, View out);

/// A tensor and what it is multiplied by.
struct Weighted {
  ConstView values;
  float weight = 1;
};

/// out = a · its weight + b · its weight, all f32; the second product is rounded, then the sum.
void weighted_sum(Compute& compute, const Weighted& a, const Weighted& b, View out);

void fill(Compute& compute, float value, View out);

/// out = a, between f32 and bf16 in any combination. bf16 rounds to nearest even.
void copy(Compute& compute, ConstView a, View out);

/// out = a, or out + a, which are of one dtype then.
inline void write(Compute& compute, ConstView a, View out, Write how) {
  if (how == Write::Overwrite) return copy(compute, a, out);
  add(compute, out, a, out);
}

}  // namespace cleave::ops
