#pragma once

#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/engine/measure/devices_at_once.h"
#include "cleave/plan/time/costs.h"

namespace cleave::engine {

/// What the devices of a world and the links between them are like.
struct Survey {
  std::vector<double> rate;            ///< [device] what each of them gave
  std::vector<ProcessPlace> places;    ///< [device]
  std::vector<plan::LinkCosts> links;  ///< [from · devices + to]; nothing to itself

  const plan::LinkCosts& link(int from, int to) const {
    return links.at(static_cast<std::size_t>(from) * rate.size() + to);
  }
};

/// All devices of `world` call it and get the same; `rate` is this one's own. Every link is
/// measured, by so many messages as fit into a tenth of a second, at least two; links between
/// different devices at the same time:
///
///     round 0   0-3  1-2        round 1   0-1  2-3        round 2   0-2  1-3
Survey survey(comm::Communicator& world, double rate);

}  // namespace cleave::engine
