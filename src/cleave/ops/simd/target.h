#pragma once

#include <string>

#include "cleave/ops/instruction_limit.h"

namespace cleave::ops {

/// Highway's name of the best instruction set that was compiled in and that this processor has.
std::string simd_target();

/// True if it multiplies and adds with one rounding, as exact numerics demand.
bool simd_is_fused();

/// Keeps our own kernels at a level.
void limit_simd(InstructionLevel level);

}  // namespace cleave::ops
