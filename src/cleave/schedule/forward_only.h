#pragma once

#include "cleave/schedule/passes.h"
#include "cleave/schedule/program.h"

namespace cleave::schedule {

/// The program that only evaluates, on the placement of the compute-only program `training`: F of
/// `microbatches` microbatches and their messages, no backward, no update. Every device runs its Fs
/// in the order (microbatch, stage), which is a part of one order that respects all edges: no
/// deadlock.
Program forward_only(const Program& training, int microbatches, const LowerOptions& options);

}  // namespace cleave::schedule
