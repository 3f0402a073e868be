#pragma once

#include <span>
#include <string>
#include <vector>

namespace cleave::comm {

/// Numbers of hardware threads, as the operating system counts them.
using HardwareThreads = std::vector<int>;

/// Where the devices of one machine compute. A device that has cores of its own keeps its caches;
/// where there are too few, devices take turns on them.
struct Pinning {
  std::vector<HardwareThreads> devices;  ///< [device]; empty: left to the operating system
  std::vector<HardwareThreads> shared;   ///< places to take turns on; none: each has its own
  std::string report;                    ///< "2 devices have a core each", for doctor and the log
};

/// Gives each of `devices` as many cores as it has threads, neighbours to neighbours, if the cores
/// (or else the hardware threads) suffice. `cores` lists the hardware threads of each core.
Pinning plan_pinning(std::span<const HardwareThreads> cores, int devices, int threads_per_device);

/// The cores that this thread may run on: what the machine has, less what a batch system, a
/// container or mpirun withholds.
std::vector<HardwareThreads> allowed_cores();

/// Ties the calling thread, and the threads it will start, to `threads`. False if the system
/// refuses.
bool pin_this_thread(const HardwareThreads& threads);

/// The same for the thread with this number.
bool pin_thread(int number, const HardwareThreads& threads);

}  // namespace cleave::comm
