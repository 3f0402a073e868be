#pragma once

#include <cstdint>
#include <vector>

#include "cleave/plan/hardware/kernel_time.h"
#include "cleave/plan/tune/analytic/segment_cost.h"
#include "cleave/plan/tune/analytic/workload.h"

namespace cleave::plan {

/// What no cut of a model divides, as parts_of() has it: a block, if there is one, and what goes
/// with it.
struct PartCost {
  SegmentCost block;
  SegmentCost rest;
  std::int64_t count = 1;  ///< parts like this one, one after the other
};

/// The parts of the model, as one layout runs them. What no gradient is wanted of has no backward
/// pass and keeps nothing, and what does not learn has no W.
std::vector<PartCost> part_costs(const Workload& workload, const Layout& layout);

/// Exposed communication of a block in F and in the backward, for ZeRO 2 and 3.
struct Exposed {
  double forward = 0;
  double backward = 0;
};
Exposed zero_exposed(const Workload& workload, const Layout& layout, const SegmentCost& block);

/// What is computed again of a block that has a backward pass.
double recomputed_seconds(const SegmentCost& block, schedule::Recompute recompute);

/// What `communication` adds to `arithmetic` that runs at the same time.
double exposed_seconds(double communication, double arithmetic);

/// Sending x on and dx back, for one stage and microbatch.
double hop_seconds(const Workload& workload, const Layout& layout);

/// The replicas of one stage, as they are spread over nodes: tensor groups are filled first, then
/// replicas, then the pipeline.
CollectiveGroup data_group(const Workload& workload, const Layout& layout);

}  // namespace cleave::plan
