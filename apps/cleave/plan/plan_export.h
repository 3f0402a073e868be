#pragma once

#include <string>
#include <string_view>

#include "plan/plan_answer.h"

namespace cleave::app {

/// "megatron, torchtitan, deepspeed".
std::string export_names();

/// Throws UserError if no system has that name.
void check_export(std::string_view system);

/// What another system has to be told to train in the layout found: flags of its program, or its
/// config. Throws UserError for a system that does not have the layout.
std::string export_layout(std::string_view system, const PlanAnswer& answer);

}  // namespace cleave::app
