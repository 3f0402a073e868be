#pragma once

#include <string>
#include <string_view>

#include "plan/plan_answer.h"

#include "cleave/plan/tune/layout_space.h"

namespace cleave::app {

/// "megatron, torchtitan, deepspeed".
std::string export_names();

/// "Megatron-LM" for "megatron". Throws UserError if no system has that name.
std::string_view system_title(std::string_view system);

/// The layouts that the system can be told to take. Throws UserError if it cannot be told to train
/// what `work` trains.
plan::Allowed layouts_of_system(std::string_view system, const plan::Workload& work);

/// Throws UserError, naming what the system lacks, unless it can be told to take `layout`.
void check_export(std::string_view system, const plan::Workload& work, const plan::Layout& layout);

/// What the system has to be told to train in the layout found: flags of its program, or its
/// config.
std::string export_text(std::string_view system, const PlanAnswer& answer);

/// The same as {"system", "layout", "flags" or "config"}, with "program" beside flags.
std::string export_json(std::string_view system, const PlanAnswer& answer);

}  // namespace cleave::app
