#pragma once

#include <string>

#include "cleave/ops/compute.h"
#include "cleave/spec/dtype.h"

namespace cleave::ops {

/// What the kernels use on this processor, chosen at run time.
struct InstructionSet {
  std::string simd;       ///< Highway's name, for element-wise kernels and our own products: "AVX3"
  std::string onednn;     ///< the widest that oneDNN uses: "avx512_core_bf16"; empty: not built in
  bool amx_bf16 = false;  ///< oneDNN multiplies bf16 matrices in hardware
  bool bf16_dot = false;  ///< bf16 products without conversion to f32
  bool dot_is_faster = true;  ///< than products of what was converted
  bool fused = true;          ///< multiplies and adds with one rounding: can be exact
  std::string limit;          ///< what CLEAVE_ISA says; empty: nothing

  /// The arithmetic that costs nothing: exact, unless the processor has something faster.
  Arithmetic cheapest(DType dtype) const;
};

InstructionSet instruction_set();

}  // namespace cleave::ops
