#pragma once

#include <cstdint>

#include "cleave/ops/compute.h"
#include "cleave/spec/matmul_spec.h"
#include "cleave/tensor/view.h"

namespace cleave::ops::onednn {

/// True where the processor multiplies matrices of `dtype` in hardware and oneDNN uses that.
bool has_amx(DType dtype);

/// True where oneDNN has products of `dtype` at all: of f32 everywhere, of bf16 from AVX-512 on.
bool has_matmul(DType dtype);

/// ops::matmul by oneDNN's kernels. Throws InternalError where it has no products of the dtype.
void amx_matmul(Compute& compute, const MatmulSpec& spec, ConstView a, ConstView b, View out,
                ConstView bias);
std::int64_t amx_matmul_scratch_bytes(Compute& compute, const MatmulSpec& spec);

}  // namespace cleave::ops::onednn
