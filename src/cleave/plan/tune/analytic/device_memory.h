#pragma once

#include <cstdint>
#include <vector>

#include "cleave/plan/tune/analytic/stage_cost.h"
#include "cleave/plan/tune/prediction.h"

namespace cleave::plan {

/// Bytes that `parameters` of one device occupy between steps. Mixed precision: 2 for the weight, 4
/// for an f32 gradient, 12 for the master weight and two moments. With ZeRO gradients stay in bf16,
/// and what the stage splits is divided by the replicas.
DeviceMemory state_memory(const Layout& layout, double parameters);

/// What a device with this share of the model holds; `alive` microbatches at its peak.
DeviceMemory device_memory(const Layout& layout, const Holding& held, double alive);

/// Blocks of each stage in the cut whose slowest stage is fastest, within the memory of a device
/// where each has one stage. `alive` says how many microbatches each device holds at its peak.
std::vector<std::int64_t> cut_modules(const Workload& workload, const Layout& layout,
                                      const std::vector<PartCost>& parts,
                                      const std::vector<double>& alive);

}  // namespace cleave::plan
