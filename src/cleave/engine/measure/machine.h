#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/ops/instruction_set.h"

namespace cleave::engine {

/// What this process was given to compute with.
struct Machine {
  std::string processor;  ///< its name
  ops::InstructionSet instructions;
  int online = 0;                         ///< hardware threads of the machine
  int allowed = 0;                        ///< those that the affinity mask leaves to this process
  int allowed_cores = 0;                  ///< the cores that these belong to
  std::optional<double> processor_quota;  ///< of a container, in hardware threads
  double load = 0;                        ///< processes that wanted to run, over the last minute

  std::int64_t memory = 0;                       ///< bytes
  std::int64_t memory_available = 0;             ///< without swapping
  std::optional<std::int64_t> container_memory;  ///< what is left of a container's limit
  std::optional<std::int64_t> address_space;     ///< ulimit -v
  std::string huge_pages;                        ///< "always", "madvise" or "never"; empty: unknown

  std::string mpi;  ///< library and version
  bool under_mpi = false;
  std::string mpi_problem;                                       ///< empty: none
  std::string opencl_plugin;                                     ///< of hwloc; empty: none
  std::vector<std::pair<std::string, std::string>> environment;  ///< settings that change speed
  std::int64_t disk_free = 0;  ///< bytes, in the current directory
};

/// Looks at the machine; measures nothing.
Machine look_at_machine();

/// Figures measured now, in about a second together.
struct MachineRates {
  double f32_one = 0;  ///< FLOP/s of products, one thread
  double f32_all = 0;  ///< all allowed threads
  double bf16_one = 0;
  double bf16_all = 0;
  double bandwidth = 0;  ///< bytes/s that an addition of long vectors reads and writes, all threads
};
MachineRates measure_machine(int threads);

/// What will limit a run here and what to do about it, one or two sentences each.
std::vector<std::string> advice(const Machine& machine, const MachineRates& rates);

/// A warning with its remedy if a device asks for more threads than this process may use at once;
/// else empty.
std::string thread_warning(std::int64_t threads, int allowed);

/// Hardware threads that the affinity mask leaves to this process.
int allowed_threads();

}  // namespace cleave::engine
