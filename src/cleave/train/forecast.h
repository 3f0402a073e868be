#pragma once

#include "cleave/runtime/compile.h"
#include "cleave/train/config.h"
#include "cleave/train/step_trace.h"

namespace cleave::train {

/// A run before it runs.
struct Forecast {
  runtime::CompiledStep step;
  TracedStep predicted;
  bool fits = false;  ///< every device within its budget
};

/// Compiles `config`, in which nothing is "auto", measures its stages and links on threads of this
/// process, and simulates a step. What does not fit is predicted as well.
Forecast forecast(const Config& config);

}  // namespace cleave::train
