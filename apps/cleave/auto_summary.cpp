#include "auto_summary.h"

#include <algorithm>

#include <fmt/format.h>

#include "cleave/base/units.h"

namespace cleave::app {

std::string describe_auto(const train::AutoPlan& plan) {
  if (plan.considered == 0) return "";
  const train::PlannedRun& choice = plan.choice();
  std::string text = fmt::format(
      "auto: {}\n      {} of {} layouts\n", describe(choice.config),
      plan.fitting.empty() ? "nearest to fitting" : "the fastest that fits", plan.considered);
  for (std::size_t i = 1; i < plan.fitting.size(); ++i) {
    const train::PlannedRun& next = plan.fitting[i];
    text += fmt::format("      then {}: {:+.1f} %\n", describe(next.config),
                        100 * (next.estimate / choice.estimate - 1));
  }
  const auto faster = std::ranges::count_if(
      plan.unfit, [&](const train::PlannedRun& run) { return run.estimate < choice.estimate; });
  if (faster > 0 && !plan.fitting.empty()) {
    const train::PlannedRun& first = plan.unfit.front();
    text += fmt::format("      {} would be faster but do not fit: {} lacks {}\n", faster,
                        describe(first.config), format_bytes(first.excess));
  }
  return text;
}

std::string describe_excess(const train::AutoPlan& plan, const runtime::CompiledStep& step) {
  const auto lacks = [&](int d) { return step.planned_on(d) - step.budgets[d]; };
  int worst = 0;
  for (int d = 0; d < step.devices(); ++d) {
    if (lacks(d) > lacks(worst)) worst = d;
  }
  return fmt::format(
      "{}device {} needs {} and has {}, {} too little; raise devices.memory, use more "
      "devices, or make the microbatch or the model smaller",
      plan.considered == 0 ? "" : "no layout fits; in the nearest ", worst,
      format_bytes(step.planned_on(worst)), format_bytes(step.budgets[worst]),
      format_bytes(lacks(worst)));
}

}  // namespace cleave::app
