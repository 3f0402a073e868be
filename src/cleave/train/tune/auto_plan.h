#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/comm/launcher.h"
#include "cleave/plan/tune/prediction.h"
#include "cleave/train/config/config.h"
#include "cleave/train/tune/device_facts.h"

namespace cleave::train {

/// One way to run a config: nothing in `config` is "auto" any more, but perhaps the order of its
/// schedule.
struct PlannedRun {
  Config config;
  plan::Prediction predicted;
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

/// Searches everything that is "auto", as plan::search does, in the first grid in which something
/// fits. Each layout gets the partition that suits it, its bytes by its compiled plan and its time
/// by its simulated program; of runs that are about as fast the plainest is chosen. All processes
/// arrive at the same plan. `facts` of devices that are elsewhere.
AutoPlan plan_run(const Config& config, comm::Launcher& launcher, const DeviceFacts& facts = {});

/// `config`, whose layout is given, with the look-ahead that hides the latency of its links, as far
/// as they are known and memory allows it: those of `facts`, or emulated ones. Elsewhere it stays
/// as it is. All processes get the same.
Config with_latency_hidden(const Config& config, comm::Launcher& launcher,
                           const DeviceFacts& facts = {});

/// "pipeline 4 x tensor 1 x data 1, microbatch 4, schedule zb-h1, layers 1+2+2+1".
std::string describe(const Config& config);

}  // namespace cleave::train
