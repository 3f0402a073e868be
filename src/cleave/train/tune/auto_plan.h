#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/comm/launcher.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// One way to run a config: nothing in `config` is "auto" any more, but perhaps the order of its
/// schedule.
struct PlannedRun {
  Config config;
  double seconds = 0;        ///< per step, simulated with the profile of its segments
  double bubble = 0;         ///< as in plan::Summary::bubble_rate
  double idle = 0;           ///< share of the devices' time that is neither work nor communication
  double communication = 0;  ///< share of it that devices exchange sums and weights
  double recompute = 0;      ///< share of it that computes again
  std::int64_t excess = 0;   ///< bytes that its worst device lacks; 0: it fits
  std::int64_t needed = 0;   ///< bytes that the worst device needs
  int device = 0;            ///< which one that is
  std::size_t order = 0;     ///< the plainer of two has the lower number
};

/// What the planner made of a config.
struct AutoPlan {
  Config asked = {};
  std::vector<PlannedRun> fitting = {};  ///< fastest first
  /// Fastest first: of each layout what comes nearest to fitting. If none fits, the nearest first.
  std::vector<PlannedRun> unfit = {};
  std::int64_t considered = 0;  ///< layouts, each with all that ZeRO and recompute may be
  std::int64_t slower = 0;      ///< of them, told to be slower without being compiled

  /// The fastest that fits, or what comes nearest to fitting.
  const PlannedRun& choice() const;
};

/// Throws DoesNotFit, as describe_excess says, if nothing fits.
void require_fit(const AutoPlan& plan);

/// What comes nearest to fitting, what it lacks, and what would help.
std::string describe_excess(const AutoPlan& plan);

/// True if `config` leaves an axis, the microbatch, ZeRO or recompute to the planner, or the
/// partition on devices that differ.
bool needs_plan(const Config& config);

/// Looks through everything that is "auto", fastest bound first. Each layout gets the partition
/// that suits it and as much ZeRO and recompute as it needs to fit, by its compiled plan, to the
/// byte; then its program is simulated. All devices of `world` (null: one process) arrive at the
/// same plan.
AutoPlan plan_run(const Config& config, comm::Launcher& launcher);

/// "none", "selective", "full", or "by layer".
std::string recompute_name(const Config& config);

/// "pipeline 4 x tensor 1 x data 1, microbatch 4, schedule zb-h1, layers 1+2+2+1".
std::string describe(const Config& config);

}  // namespace cleave::train
