#pragma once

#include "cleave/engine/stage/stage.h"
#include "cleave/plan/memory/memory.h"

namespace cleave::engine {

/// What a stage occupies, segment by segment; scratch is the device's and not in it.
plan::StageMemory memory_of(const Stage& stage);

}  // namespace cleave::engine
