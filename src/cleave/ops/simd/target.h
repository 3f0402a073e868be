#pragma once

#include <string>

#include "cleave/ops/instruction_limit.h"

namespace cleave::ops {

/// Highway's name of the best instruction set that was compiled in and that this processor has.
std::string simd_target();

/// True if it multiplies and adds with one rounding, as exact numerics demand.
bool simd_is_fused();

/// Whether dot products of bf16, where a processor has them, are faster than products of what was
/// converted to f32. Those of Intel are not: a Xeon of the fourth generation took 1.8 times as
/// long.
bool bf16_dot_is_faster();

/// Keeps our own kernels at a level.
void limit_simd(InstructionLevel level);

}  // namespace cleave::ops
