#pragma once

#include "cleave/comm/launcher.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/train/config/config.h"
#include "cleave/train/loop/step_trace.h"

namespace cleave::train {

/// A run before it runs.
struct Forecast {
  engine::CompiledStep step;
  TracedStep predicted;
  bool fits = false;  ///< every device within its budget
};

/// Compiles `config`, in which nothing is "auto", measures its stages and links on the devices of
/// `world` (null: on threads of this process), and simulates a step. What does not fit is predicted
/// as well. Of emulated devices `step` is what the model would take.
Forecast forecast(const Config& config, comm::Launcher& launcher);

/// How many devices of a run can compute at the same time. Those that are threads (`world` null)
/// share the cores that this process may use; ranks are taken to share those of one machine if it
/// has fewer than there are ranks.
double at_once_of(const engine::CompiledStep& compiled, const Config& config,
                  const comm::Launcher& launcher);

}  // namespace cleave::train
