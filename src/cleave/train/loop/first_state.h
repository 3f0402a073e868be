#pragma once

#include "cleave/train/loop/job.h"

namespace cleave::train {

/// Gives a device what its run begins with: the state that devices have in memory, that of a
/// checkpoint, or a fresh one.
void give_first_state(const Job& job, Trainer& trainer, comm::Communicator& world);

}  // namespace cleave::train
