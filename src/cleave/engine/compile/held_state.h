#pragma once

#include <cstdint>

#include "cleave/engine/compile/compile.h"

namespace cleave::engine {

/// Bytes of what a device at `place` updates: master weights and slots.
std::int64_t state_bytes(const CompiledStep& step, int place);

/// Plans room for copies of state, so that a run can lose `copies` devices and go on from the step
/// before. Every device keeps its own state as it was before the last update, and two versions of
/// that of the devices before it, which send it: device d to d + 1, d + 2, … in a circle.
/// Replicas that have the same state anyway count as copies.
void plan_held_state(CompiledStep& step, int copies);

/// Throws DoesNotFit, with the numbers, if some device's plan exceeds its budget now.
void require_room_for_held_state(const CompiledStep& step);

}  // namespace cleave::engine
