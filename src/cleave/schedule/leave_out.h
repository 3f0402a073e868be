#pragma once

#include <span>

#include "cleave/schedule/program.h"

namespace cleave::schedule {

/// A lowered program without what more absences leave out: passes, their messages and moves, and
/// parameters that are gathered for no replica any more. What remains keeps its order, and its
/// buffers their places, so that programs of one plan can take turns in one memory. Replicas stay
/// in step: each posts the collectives that `whole` has, whether or not it takes part in a
/// microbatch itself. `whole` is the same for all replicas.
Program leave_out(const Program& whole, std::span<const Absence> absences);

}  // namespace cleave::schedule
