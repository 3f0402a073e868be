#pragma once

#include "cleave/comm/communicator.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/executor.h"
#include "cleave/plan/time/simulator.h"
#include "cleave/plan/time/trace.h"

namespace cleave::train {

/// A timeline of a step with what it comes to.
struct TracedStep {
  plan::Trace trace;
  plan::Summary summary;
};

/// How far a prediction may be off where nothing disturbs a run, besides what the times that it is
/// made of differ: what bench/predicted.py holds it to.
inline constexpr double kError = 0.1;
inline constexpr double kErrorOnSharedCores = 0.2;

/// What the simulator makes of `costs`: of a run whose steps differ, the step that takes as long as
/// the middle one of them all.
TracedStep predicted_step(const engine::CompiledStep& compiled, const plan::Costs& costs,
                          plan::SimulateOptions options);

/// Seconds from one step to the next in the same simulation. Over links that take long a device
/// begins a step when it has ended the one before, whatever the others do.
double predicted_seconds(const engine::CompiledStep& compiled, const plan::Costs& costs,
                         plan::SimulateOptions options);

/// The timeline of all devices from what the executor of each recorded, on every device. Clocks of
/// different machines are brought together at the end of NORM, where all devices meet; over links
/// that take long, as nearly as these do. `pattern`: which of CompiledStep::patterns has run.
TracedStep measured_step(const engine::CompiledStep& compiled, const engine::Executor& executor,
                         comm::Communicator& world, int pattern = engine::StepInput::kFullest);

}  // namespace cleave::train
