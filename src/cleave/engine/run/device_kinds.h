#pragma once

#include <memory>

#include "cleave/comm/launcher.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/ops/accelerator.h"

namespace cleave::engine {

/// Throws UserError, or DoesNotFit, unless this machine has the accelerators that those devices of
/// the run compute with that this process is, and these have room for what is planned on them.
void check_devices(const CompiledStep& step, comm::Launcher& launcher);

/// The accelerator of a device of the run; null if a processor computes.
std::unique_ptr<ops::Accelerator> open_device(const CompiledStep& step, int device);

}  // namespace cleave::engine
