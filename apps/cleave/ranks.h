#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "cleave/comm/launcher.h"

namespace cleave::app {

/// To start, to read and to plan takes seconds on a busy machine, whatever patience a run has
/// later.
inline constexpr std::chrono::seconds kLeastStartPatience{10};

/// Runs `work` as one rank of the job that mpirun or srun started, or in a process of its own. A
/// rank that fails says so with its number and ends the whole job with its exit code; so does one
/// for which MPI has not started within `patience`, or kLeastStartPatience if that is more.
void on_ranks(const std::function<void(comm::Launcher& launcher)>& work,
              std::chrono::nanoseconds patience = comm::kUsualPatience);

/// Throws UserError unless --devices, where it is given, is what a launcher can give.
void check_devices(std::optional<int> devices, const comm::Launcher& launcher);

}  // namespace cleave::app
