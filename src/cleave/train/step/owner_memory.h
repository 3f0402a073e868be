#pragma once

#include "cleave/engine/compile/compile.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// Throws DoesNotFit if an owner's part of `step`, which was compiled without budgets, takes more
/// than its memory: with the owner, the bytes, and the layer that takes most of them.
void check_owner_memory(const Config& config, const engine::CompiledStep& step);

}  // namespace cleave::train
