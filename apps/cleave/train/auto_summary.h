#pragma once

#include <string>

#include "cleave/engine/compile/compile.h"
#include "cleave/train/tune/auto_plan.h"

namespace cleave::app {

/// What the planner chose and what came next, in a few lines; empty if there was nothing to choose.
std::string describe_auto(const train::AutoPlan& plan);

/// The runs that the planner compared, and why it took none of the others.
std::string candidate_table(const train::AutoPlan& plan);

/// One sentence on what a run that does not fit lacks.
std::string describe_excess(const train::AutoPlan& plan, const engine::CompiledStep& step);

/// Before anything is measured: forgets earlier measurements if asked to, and says so on the first
/// rank if others compute on this machine, which makes all that is measured too slow.
void prepare_measuring(bool remeasure, comm::Launcher& launcher);

}  // namespace cleave::app
