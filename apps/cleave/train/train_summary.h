#pragma once

#include <string>

#include "cleave/train/loop/run.h"

namespace cleave::app {

/// Layout, schedule and memory by device, as `cleave train` prints before the first step.
std::string describe_plan(const train::Config& config, const engine::CompiledStep& step);

/// "embedding .. block 1; block 4": the segments of each of a device's stages.
std::string stages_on(const engine::CompiledStep& step, int device);

}  // namespace cleave::app
