#pragma once

#include <vector>

#include "cleave/plan/hardware/kernel_time.h"
#include "cleave/plan/time/costs.h"
#include "cleave/plan/tune/analytic/segment_cost.h"
#include "cleave/plan/tune/analytic/workload.h"

namespace cleave::plan {

/// What no cut of a model with modules divides: a block, if there is one, and what goes with it.
struct PartCost {
  SegmentCost block;
  SegmentCost rest;
};

/// The three kinds of segments of a transformer, as one layout runs them.
struct ModelCost {
  SegmentCost embedding;
  SegmentCost block;
  SegmentCost head;
  std::vector<PartCost> parts = {};  ///< instead of them, of a model with modules
};

/// Blocks of each stage. Where stages do not divide the layers, the first and the last, which also
/// hold the embedding and the head, have fewer.
std::vector<std::int64_t> blocks_of_stages(std::int64_t layers, std::int64_t stages);

/// [stage], in the order of the model, what it takes per microbatch: communication with its
/// neighbours included, what is recomputed as part of I.
std::vector<StageCosts> stage_times(const Workload& workload, const Layout& layout,
                                    const ModelCost& cost);

/// The part of a block's time per microbatch that is spent on each thing other than its own
/// arithmetic.
struct BlockOverheads {
  double recompute = 0;
  double tensor_communication = 0;
  double data_communication = 0;  ///< ZeRO 2 and 3: what does not hide behind arithmetic
};
BlockOverheads block_overheads(const Workload& workload, const Layout& layout,
                               const ModelCost& cost);

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
