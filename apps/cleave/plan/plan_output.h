#pragma once

#include <string>

#include "plan/plan_answer.h"
#include <nlohmann/json_fwd.hpp>

namespace cleave::app {

/// As --layout names its parts.
nlohmann::json layout_json(const plan::Layout& layout);

std::string to_json(const PlanAnswer& answer);

/// The choice, where its time and memory go, and why the others lost.
std::string to_text(const PlanAnswer& answer);

/// To what the search kept for --export, and what would be faster.
std::string describe_search(const PlanAnswer& answer);

/// One sentence for stderr if nothing fits.
std::string refusal(const PlanAnswer& answer);

}  // namespace cleave::app
