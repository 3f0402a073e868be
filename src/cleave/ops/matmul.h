#pragma once

#include <cstdint>

#include "cleave/ops/compute.h"
#include "cleave/spec/matmul_spec.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

struct MatmulOptions {
  Write write = Write::Overwrite;
  ConstView bias = {};  ///< [n], f32 or the dtype of a and b; added to every row
};

/// out = a · b + bias, or out += a · b + bias, summed in f32 and rounded once.
///
///   a    [m, k] or [batch, m, k]   f32 or bf16; may be transposed (View::transposed)
///   b    [k, n] or [batch, k, n]   same dtype as a; may be transposed
///   out  [m, n] or [batch, m, n]   f32 or bf16, rows contiguous; must not overlap a or b
///
/// Needs matmul_scratch_bytes of compute.scratch(); allocates nothing. An element of out has bits
/// that depend on its row of a and its column of b: not on m, n, strides, transposition or threads,
/// and with Arithmetic::Exact not on the processor. (Where AMX multiplies bf16, oneDNN does it: the
/// bits then depend on all of these, and the kernel is compiled on the first call of its kind.)
void matmul(Compute& compute, ConstView a, ConstView b, View out,
            const MatmulOptions& options = {});

/// The product that the same arguments to matmul() would do.
MatmulSpec describe(ConstView a, ConstView b, ConstView out, const MatmulOptions& options = {});

/// Scratch that matmul() needs for `spec`.
std::int64_t matmul_scratch_bytes(Compute& compute, const MatmulSpec& spec);

}  // namespace cleave::ops
