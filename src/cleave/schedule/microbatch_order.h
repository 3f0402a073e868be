#pragma once

#include "cleave/schedule/program.h"

namespace cleave::schedule {

/// Lets the backwards of a stage run in the order of microbatches, where the compute-only `program`
/// has them in another and stays sound: the sum of a stage's gradients has one order. Torch's
/// LoopedBFS, for one, goes back through the microbatches. The k-th backward of a stage stays where
/// it is and takes the k-th microbatch. Returns whether that was possible and changed anything.
bool sort_backwards(Program& program);

}  // namespace cleave::schedule
