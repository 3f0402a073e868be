#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/train/config.h"

namespace cleave::train {

/// One way to run a config: nothing in `config` is "auto" any more.
struct PlannedRun {
  Config config;
  double estimate = 0;                   ///< seconds per step, from the segments' profile
  std::int64_t excess = 0;               ///< bytes that its worst device lacks; 0: it fits
  std::int64_t needed = 0;               ///< bytes that this device needs; 0 if it was not compiled
  bool cut = false;                      ///< the partition is the planner's own
  std::vector<std::int64_t> bytes = {};  ///< [device of the pipeline] by estimate
};

/// What the planner made of a config.
struct AutoPlan {
  std::vector<PlannedRun> fitting;  ///< fastest first
  std::vector<PlannedRun> unfit;    ///< looked at before, and do not fit
  std::int64_t considered = 0;

  /// The fastest that fits, or what comes nearest to fitting.
  const PlannedRun& choice() const;
};

/// Throws DoesNotFit, naming what comes nearest and what it lacks, if nothing fits.
void require_fit(const AutoPlan& plan);

/// True if `config` leaves an axis, the microbatch, ZeRO or recompute to the planner, or the
/// partition on devices that differ.
bool needs_plan(const Config& config);

/// Every combination of what is "auto": estimated with the partition that suits it, then compiled
/// from the fastest on, until some fit. All devices of `world` (null: one process) arrive at the
/// same plan.
AutoPlan plan_run(const Config& config, comm::Communicator* world);

/// "pipeline 4 x data 1, microbatch 4, schedule zb-h1, layers 1+2+2+1".
std::string describe(const Config& config);

}  // namespace cleave::train
