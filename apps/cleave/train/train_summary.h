#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cleave/train/loop/run.h"

namespace cleave::app {

/// Layout, schedule and memory by device, as `cleave train` prints before the first step.
std::string describe_plan(const train::Config& config, const engine::CompiledStep& step);

/// The summary at the end of a run.
std::string describe_report(const train::RunReport& report);

/// The keys of `cleave train --json`.
nlohmann::json to_json(const train::RunReport& report);

}  // namespace cleave::app
