#pragma once

#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/plan/time/costs.h"
#include "cleave/plan/time/simulator.h"
#include "cleave/schedule/program.h"

namespace cleave::engine {

/// What a message between devices `first` and `second` takes, measured now; all devices of `world`
/// call it, and get the same. A few milliseconds.
plan::LinkCosts profile_link(comm::Communicator& world, int first, int second);

/// What a sum over two devices takes for each byte that it sends, in the same way.
plan::LinkCosts profile_sum(comm::Communicator& world, int first, int second);

/// What a message takes on every edge of `program`, in the same way, one link after the other.
std::vector<plan::LinkCosts> profile_links(const schedule::Program& program,
                                           comm::Communicator& world);

/// Over links at least this long, in seconds, what each pair of devices takes is worth measuring.
inline constexpr double kLongLatency = 1e-3;

/// [round][device] Whom it hears from in Communicator::combine(), and how long that takes; measured
/// in the same way, pairs that have no device in common at the same time.
std::vector<std::vector<plan::Hearing>> profile_rounds(comm::Communicator& world);

/// Seconds that a sum of `values` numbers over all devices takes once all of them are there.
double profile_combine(comm::Communicator& world, int values);

}  // namespace cleave::engine
