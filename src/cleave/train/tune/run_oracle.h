#pragma once

#include <optional>

#include "cleave/plan/tune/layout_search.h"
#include "cleave/train/tune/auto_costs.h"

namespace cleave::train {

/// Knows what layouts of a config take here: cuts, compiles and simulates them, with the profile of
/// their segments or with the times that emulated devices are told to take.
class RunOracle : public plan::Oracle {
 public:
  RunOracle(comm::Launcher& launcher, const DeviceFacts& facts) : devices_(launcher, facts) {}

  /// Layouts are from now on those of `grid`, which has to outlive the questions.
  void ask_about(const Config& grid) { grid_ = &grid; }

  /// Every layout may: compiling has the last word.
  bool may_fit(const plan::Layout& /*layout*/) override { return true; }

  double bound(const plan::Layout& layout) override;

  /// The layout has a good cut.
  double roomy_seconds(const plan::Layout& layout) override;

  /// Cut so that it fits, if that can be, and otherwise so that it is fast.
  std::optional<plan::Prediction> predict(const plan::Layout& layout, double limit) override;

  /// Its bytes by its compiled plan, its time by its simulated program. Nothing in `config` is
  /// "auto", but perhaps the order of its schedule, and its look-ahead, which becomes what hides
  /// the latency of slow links.
  plan::Prediction weighed(const Config& config);

  /// Whether a look-ahead is left open and some link is slow enough to choose one.
  bool has_latency_to_hide(const Config& config);

 private:
  plan::Prediction weigh(const Config& config);
  std::optional<plan::Prediction> cut(const Config& config, const plan::PartitionProblem& problem,
                                      double limit);
  void simulate(plan::Prediction& run, const Config& config, const engine::CompiledStep& step);

  DeviceCosts devices_;
  const Config* grid_ = nullptr;
};

}  // namespace cleave::train
