#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cleave/train/loop/run.h"

namespace cleave::app {

/// Whose devices these are, or whose updates are averaged; empty if there is nothing to tell apart.
std::string describe_owners(const train::Config& config);

/// What was averaged in a run; empty if nothing was.
std::string describe_rounds(const train::RunReport& report);

/// The same as a field of the summary; null if nothing was.
nlohmann::json rounds_json(const train::RunReport& report);

}  // namespace cleave::app
