#pragma once

#include "cleave/plan/memory.h"
#include "cleave/runtime/stage.h"

namespace cleave::runtime {

/// What a stage occupies, segment by segment; scratch is the device's and not in it.
plan::StageMemory memory_of(const Stage& stage);

}  // namespace cleave::runtime
