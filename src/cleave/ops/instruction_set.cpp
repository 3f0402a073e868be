#include "cleave/ops/instruction_set.h"

#include "cleave/ops/instruction_limit.h"
#include "cleave/ops/onednn/amx_matmul.h"
#include "cleave/ops/simd/gemm_kernel.h"
#include "cleave/ops/simd/target.h"

namespace cleave::ops {

InstructionSet instruction_set() {
  instruction_limit();
  return {.simd = simd_target(),
          .onednn = onednn::instructions(),
          .amx_bf16 = onednn::has_amx(DType::BF16),
          .bf16_dot = gemm_kernel(DType::BF16, Arithmetic::Fastest).k_step == 2,
          .dot_is_faster = bf16_dot_is_faster(),
          .fused = simd_is_fused(),
          .limit = instruction_limit_name()};
}

Arithmetic InstructionSet::cheapest(DType dtype) const {
  const bool faster = dtype == DType::BF16 && ((bf16_dot && dot_is_faster) || amx_bf16);
  return fused && !faster ? Arithmetic::Exact : Arithmetic::Fastest;
}

}  // namespace cleave::ops
