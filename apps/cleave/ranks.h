#pragma once

#include <chrono>
#include <functional>

#include "cleave/comm/launcher.h"

namespace cleave::app {

/// Runs `work` as one rank of the job that mpirun or srun started, or in a process of its own. A
/// rank that fails says so with its number and ends the whole job with its exit code; so does one
/// for which MPI has not started within `patience`.
void on_ranks(const std::function<void(comm::Launcher& launcher)>& work,
              std::chrono::nanoseconds patience = comm::kUsualPatience);

}  // namespace cleave::app
