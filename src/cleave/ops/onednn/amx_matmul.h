#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cleave/ops/compute.h"
#include "cleave/spec/matmul_spec.h"
#include "cleave/tensor/view.h"

namespace cleave::ops::onednn {

/// The widest instruction set that oneDNN uses, as it calls it: "avx512_core_bf16"; empty in a
/// build without oneDNN.
std::string instructions();

/// The kernels of one device, compiled for a team of `threads`; null in a build without oneDNN.
std::unique_ptr<Compute::Kernels> make_kernels(int threads);

/// True where the processor multiplies matrices of `dtype` in hardware and oneDNN uses that.
bool has_amx(DType dtype);

/// True where oneDNN has products of `dtype` at all: of f32 everywhere, of bf16 from AVX-512 on,
/// and of nothing in a build without it.
bool has_matmul(DType dtype);

/// ops::matmul by oneDNN's kernels. Throws InternalError where it has no products of the dtype.
void amx_matmul(Compute& compute, const MatmulSpec& spec, ConstView a, ConstView b, View out,
                ConstView bias);
std::int64_t amx_matmul_scratch_bytes(Compute& compute, const MatmulSpec& spec);

}  // namespace cleave::ops::onednn
