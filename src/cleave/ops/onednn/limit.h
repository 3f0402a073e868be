#pragma once

#include "cleave/ops/instruction_limit.h"

namespace cleave::ops::onednn {

/// Keeps oneDNN at a level, before it compiles its first kernel.
void limit(InstructionLevel level);

}  // namespace cleave::ops::onednn
