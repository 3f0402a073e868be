#pragma once

#include "cleave/comm/communicator.h"

namespace cleave::train {

/// Asks running trainings of this process to finish their step, save and leave; one that has not
/// begun its first step leaves without it. Safe in a signal handler.
void request_stop() noexcept;

/// Whether request_stop() was called.
bool stop_was_requested() noexcept;

/// Whether it was on some device of `world` (null: on this one); all of them call it together and
/// get the same answer.
bool agree_to_stop(comm::Communicator& world);

}  // namespace cleave::train
