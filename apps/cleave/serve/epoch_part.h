#pragma once

#include <functional>
#include <string>

#include "cleave/comm/launcher.h"
#include "cleave/train/loop/run.h"

namespace cleave::app {

/// What this process has to do with an epoch.
struct EpochPart {
  const train::Config& config;
  train::RunOptions options;  ///< of the first device, as far as all must do the same
  train::KeptState& kept;
};

using Train = std::function<void(comm::Launcher& launcher, const train::RunOptions& options)>;

/// Calls `train` if this process is one of the devices of the plan. `everyone` has these first,
/// then those who were devices of the plan before: they give what they kept of the state.
void take_part(comm::Communicator& everyone, EpochPart part, const Train& train);

/// "device 2 held 1.20 MiB at most, as planned"; empty if it did no step of the plan.
std::string describe_memory(int device, const train::PlanMemory& memory);

}  // namespace cleave::app
