#pragma once

#include <optional>
#include <vector>

#include "cleave/train/tune/auto_costs.h"
#include "cleave/train/tune/auto_plan.h"

namespace cleave::train {

/// Cuts, compiles and simulates single runs for the planner. In every config given, nothing but the
/// partition is "auto".
class RunFitter {
 public:
  explicit RunFitter(comm::Launcher& launcher) : costs_(launcher) {}

  AutoCosts& costs() { return costs_; }

  /// Seconds of a step with a good cut, if memory does not count; a few percent too long.
  double roomy_seconds(const Config& config);

  /// Cut so that it fits, if that can be, and otherwise so that it is fast. Nothing if the cut says
  /// already that a step takes more than `limit`.
  std::optional<PlannedRun> fitted(const Config& config, double limit);

  /// Its bytes by its compiled plan, its time by its simulated program.
  PlannedRun weighed(PlannedRun run);

 private:
  std::optional<PlannedRun> cut(const Config& config, const plan::PartitionProblem& problem,
                                double limit);
  std::int64_t unforeseen(const PlannedRun& run, const plan::PartitionProblem& problem) const;
  void note_bytes(PlannedRun& run, const engine::CompiledStep& step,
                  const std::vector<std::int64_t>& budgets);
  void simulate(PlannedRun& run, const engine::CompiledStep& step);

  AutoCosts costs_;
  std::vector<std::int64_t> planned_;  // [place] of the last run if it was compiled
};

}  // namespace cleave::train
