#pragma once

#include "cleave/plan/time/costs.h"
#include "cleave/plan/time/simulator.h"
#include "cleave/schedule/program.h"

namespace cleave::plan::simulation {

/// What all parts of a simulation look up.
struct SimulationContext {
  const schedule::Program& program;
  const Costs& costs;
  SimulateOptions options;
  schedule::Topology topology;
};

}  // namespace cleave::plan::simulation
