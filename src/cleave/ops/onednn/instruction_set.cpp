#include "cleave/ops/instruction_set.h"

#include <oneapi/dnnl/dnnl.hpp>

#include "cleave/ops/instruction_limit.h"
#include "cleave/ops/onednn/amx_matmul.h"
#include "cleave/ops/simd/gemm_kernel.h"
#include "cleave/ops/simd/target.h"

namespace cleave::ops {
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

}  // namespace

InstructionSet instruction_set() {
  instruction_limit();
  return {.simd = simd_target(),
          .onednn = name_of(dnnl::get_effective_cpu_isa()),
          .amx_bf16 = onednn::has_amx(DType::BF16),
          .bf16_dot = gemm_kernel(DType::BF16, Arithmetic::Fastest).k_step == 2,
          .fused = simd_is_fused(),
          .limit = instruction_limit_name()};
}

Arithmetic InstructionSet::cheapest(DType dtype) const {
  const bool faster = dtype == DType::BF16 && (bf16_dot || amx_bf16);
  return fused && !faster ? Arithmetic::Exact : Arithmetic::Fastest;
}

}  // namespace cleave::ops
