#pragma once

#include <span>

#include "cleave/comm/communicator.h"
#include "cleave/plan/simulator.h"
#include "cleave/plan/trace.h"
#include "cleave/schedule/program.h"

namespace cleave::train {

/// A timeline of a step with what it comes to.
struct TracedStep {
  plan::Trace trace;
  plan::Summary summary;
};

/// What the simulator makes of `costs`.
TracedStep predicted_step(const schedule::Program& program, const plan::Costs& costs,
                          const plan::SimulateOptions& options);

/// The timeline of all devices from the spans of each, on every device. Clocks of different
/// machines are brought together at the end of NORM, where all devices meet.
TracedStep measured_step(const schedule::Program& program, std::span<const plan::Span> mine,
                         comm::Communicator* world);

}  // namespace cleave::train
