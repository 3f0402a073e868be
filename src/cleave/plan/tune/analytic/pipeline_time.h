#pragma once

#include <cstdint>
#include <vector>

#include "cleave/plan/time/costs.h"
#include "cleave/plan/tune/layout.h"
#include "cleave/plan/tune/partition.h"

namespace cleave::plan {

/// A pipeline to time: its schedule, its shape and what its stages take.
struct PipelineWork {
  const Layout& layout;
  std::int64_t microbatches = 0;
  const std::vector<StageCosts>& stages;
  std::vector<PartEdge> graph = {};  ///< which stage reads which; empty: the one before it
};

/// Which device of the pipeline has a stage, by the schedule's fold.
int device_of_stage(const Layout& layout, int stage);

/// No schedule of this name finishes sooner: on each device, the first microbatch has to come, all
/// of the device's work has to be done, and the last gradient has to go. Equal stages under 1f1b
/// and interleaved (with microbatches in whole rounds of the devices) take exactly this.
double pipeline_bound(const PipelineWork& work);

/// Simulates the schedule's own program. Past a few rounds of the pipeline every further
/// microbatch takes the same time, so the program has at most that many and the rest is added.
double pipeline_seconds(const PipelineWork& work);

/// Seconds per microbatch of the busiest device.
double busiest_device(const PipelineWork& work);

/// [device] the most microbatches alive at once, from the schedule's own program.
std::vector<double> alive_microbatches(const Layout& layout, std::int64_t microbatches);

}  // namespace cleave::plan
