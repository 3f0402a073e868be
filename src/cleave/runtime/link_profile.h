#pragma once

#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/plan/costs.h"
#include "cleave/schedule/program.h"

namespace cleave::runtime {

/// What a message takes on every edge of `program`, measured now by all devices of `world`
/// together, one link after the other; the same numbers on each. A few milliseconds per link.
std::vector<plan::LinkCosts> profile_links(const schedule::Program& program,
                                           comm::Communicator& world);

/// Seconds that a sum of `values` numbers over all devices takes once all of them are there.
double profile_combine(comm::Communicator& world, int values);

}  // namespace cleave::runtime
