#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cleave/train/loop/run.h"

namespace cleave::app {

/// The summary at the end of a run, rounded for people.
std::string describe_report(const train::RunReport& report);

/// The keys of `cleave train --json`, with exact numbers.
nlohmann::json to_json(const train::RunReport& report);

}  // namespace cleave::app
