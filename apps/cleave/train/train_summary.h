#pragma once

#include <string>

#include "cleave/train/loop/run.h"

namespace cleave::app {

/// Layout, schedule and memory by device, as `cleave train` prints before the first step.
std::string describe_plan(const train::Config& config, const engine::CompiledStep& step);

}  // namespace cleave::app
