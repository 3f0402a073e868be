#pragma once

#include "cleave/comm/communicator.h"
#include "cleave/plan/simulator.h"
#include "cleave/plan/trace.h"
#include "cleave/runtime/compile.h"
#include "cleave/runtime/executor.h"

namespace cleave::train {

/// A timeline of a step with what it comes to.
struct TracedStep {
  plan::Trace trace;
  plan::Summary summary;
};

/// What the simulator makes of `costs`.
TracedStep predicted_step(const runtime::CompiledStep& compiled, const plan::Costs& costs,
                          const plan::SimulateOptions& options);

/// The timeline of all devices from what the executor of each recorded, on every device. Clocks of
/// different machines are brought together at the end of NORM, where all devices meet.
TracedStep measured_step(const runtime::CompiledStep& compiled, const runtime::Executor& executor,
                         comm::Communicator* world);

}  // namespace cleave::train
