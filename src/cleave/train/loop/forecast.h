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

/// How many devices of a run can compute at the same time, by the cores of the hosts that its
/// processes are on. All of them call it.
double at_once_of(const engine::CompiledStep& compiled, const Config& config,
                  comm::Launcher& launcher);

}  // namespace cleave::train
