#pragma once

#include <optional>

#include "cleave/train/loop/job.h"

namespace cleave::train {

/// Gives a device what its run begins with: the state that devices have in memory, that of a
/// checkpoint, or a fresh one. Returns the seconds that the slowest device took to read a
/// checkpoint; nothing if there was none to read.
std::optional<double> give_first_state(const Job& job, Trainer& trainer, comm::Communicator& world);

}  // namespace cleave::train
