#include "cleave/ops/onednn/amx_matmul.h"

#include "cleave/base/check.h"
#include "cleave/ops/instruction_limit.h"
#include "cleave/ops/onednn/kernels.h"

namespace cleave::ops::onednn {
namespace {

std::string name_of(dnnl::cpu_isa isa) {
  using dnnl::cpu_isa;
  if (isa == cpu_isa::sse41) return "sse41";
  if (isa == cpu_isa::avx) return "avx";
  if (isa == cpu_isa::avx2) return "avx2";
  if (isa == cpu_isa::avx2_vnni) return "avx2_vnni";
  if (isa == cpu_isa::avx512_core) return "avx512_core";
  if (isa == cpu_isa::avx512_core_vnni) return "avx512_core_vnni";
  if (isa == cpu_isa::avx512_core_bf16) return "avx512_core_bf16";
  if (isa == cpu_isa::avx512_core_amx) return "avx512_core_amx";
  return "isa " + std::to_string(static_cast<int>(isa));
}

MatmulKernel& kernel_of(Compute& compute, const MatmulSpec& spec) {
  return static_cast<MatmulKernels&>(compute.kernels()).matmul(spec);
}

}  // namespace

std::string instructions() {
  instruction_limit();
  return name_of(dnnl::get_effective_cpu_isa());
}

std::unique_ptr<Compute::Kernels> make_kernels(int threads) {
  return std::make_unique<MatmulKernels>(threads);
}

bool has_amx(DType dtype) {
  instruction_limit();
  static const bool amx = dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_amx;
  return amx && dtype == DType::BF16;
}

bool has_matmul(DType dtype) {
  // oneDNN's instruction sets are sets of bits: each contains those that it extends.
  instruction_limit();
  constexpr auto kAvx512 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  static const auto effective = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return dtype == DType::F32 || (dtype == DType::BF16 && (effective & kAvx512) == kAvx512);
}

std::int64_t amx_matmul_scratch_bytes(Compute& compute, const MatmulSpec& spec) {
  CLEAVE_CHECK(has_matmul(spec.in), "oneDNN has no products of ", to_string(spec.in),
               " on this processor");
  return kernel_of(compute, spec).scratch_bytes();
}

void amx_matmul(Compute& compute, const MatmulSpec& spec, ConstView a, ConstView b, View out,
                ConstView bias) {
  MatmulKernel& kernel = kernel_of(compute, spec);
  CLEAVE_CHECK(kernel.scratch_bytes() <= static_cast<std::int64_t>(compute.scratch().size()),
               "matmul needs ", kernel.scratch_bytes(), " bytes of scratch and has ",
               compute.scratch().size());
  kernel.run({.a = a.bytes(),
              .b = b.bytes(),
              .out = out.bytes(),
              .bias = bias.bytes(),
              .scratch = compute.scratch().data()});
}

}  // namespace cleave::ops::onednn
