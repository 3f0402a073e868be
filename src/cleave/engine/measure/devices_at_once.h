#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cleave/comm/communicator.h"

namespace cleave::engine {

/// The host that a process is on, and the hardware threads of it that the process may use.
struct ProcessPlace {
  std::uint32_t host = 0;                   ///< a hash of its name and of when it was started
  std::vector<std::uint32_t> threads = {};  ///< 32 in each, the lowest bit first
};

ProcessPlace place_of_this_process();

/// How many of `devices` devices, as many in each of `processes`, can compute at the same time,
/// each on `threads` threads. Processes on one host share what they may use of it. At least 1 for
/// each host, not always whole.
double devices_at_once(std::span<const ProcessPlace> processes, int devices, int threads);

/// The same for the processes of a run, which all call it.
double devices_at_once(comm::Communicator& processes, int devices, int threads);

}  // namespace cleave::engine
