#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/cost_flags.h"

#include "cleave/report/timeline.h"
#include "cleave/schedule/passes.h"
#include "cleave/schedule/program.h"

namespace cleave::app {

/// Which schedules, for what shape, at what cost.
struct ScheduleQuery {
  std::string kinds;                ///< one kind or file, or several with commas between
  std::optional<int> stages;        ///< devices; files bring their own
  std::optional<int> microbatches;  ///< files bring their own
  int chunks = 0;                   ///< 0: what the schedule wants
  std::string graph;                ///< "0>1,1>2", or a file with it; empty: a chain
  std::string frozen;               ///< "0,1": stages
  std::string absent;               ///< "0:1,0:3": stages and microbatches
  std::string replicas;             ///< "0:4,1:2": stages and how many replicas each has
  CostFlags costs;
  std::optional<double> memory;  ///< microbatches alive per device
};

/// A schedule, what it is lowered to, and what that comes to.
struct ScheduleRun {
  std::string name;
  schedule::Program program;            ///< as generated or read
  schedule::Program final;              ///< with its messages; what the times are of
  std::vector<std::string> violations;  ///< if any, nothing below is filled in
  report::Timeline timeline;
};

/// One run per kind that fits the memory limit. Throws UserError on bad input, and DoesNotFit when
/// no kind fits.
std::vector<ScheduleRun> run_schedules(const ScheduleQuery& query);

/// A sentence for each reason why `program`, compute-only or final, must not run; and the final
/// program, if there is none. `options` say how a compute-only one is lowered.
std::vector<std::string> violations_of(const schedule::Program& program, schedule::Program& final,
                                       const schedule::LowerOptions& options = {});

}  // namespace cleave::app
