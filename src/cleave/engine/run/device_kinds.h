#pragma once

#include <memory>
#include <span>

#include "cleave/engine/compile/compile.h"
#include "cleave/ops/accelerator.h"

namespace cleave::engine {

/// Throws UserError, or DoesNotFit, unless this machine has the accelerators that `devices` of the
/// run compute with, and these have room for what is planned on them.
void check_devices(const CompiledStep& step, std::span<const int> devices);

/// The accelerator of a device of the run; null if a processor computes.
std::unique_ptr<ops::Accelerator> open_device(const CompiledStep& step, int device);

}  // namespace cleave::engine
