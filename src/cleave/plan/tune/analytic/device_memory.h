#pragma once

#include <vector>

#include "cleave/plan/tune/analytic/stage_cost.h"
#include "cleave/plan/tune/prediction.h"

namespace cleave::plan {

/// [device of the pipeline] parameters that learn, a tied matrix twice where both ends hold it.
std::vector<double> device_parameters(const Workload& workload, const Layout& layout,
                                      const ModelCost& cost);

/// Bytes that `parameters` of one device occupy between steps. Mixed precision: 2 for the weight, 4
/// for an f32 gradient, 12 for the master weight and two moments. With ZeRO gradients stay in bf16,
/// and what the stage splits is divided by the replicas.
DeviceMemory state_memory(const Layout& layout, double parameters);

/// Bytes of the blocks that ZeRO-3 has gathered at once, of so many parameters each.
double gathered_bytes(double parameters);

/// [device of the pipeline]; `alive` says how many microbatches each holds at its peak.
std::vector<DeviceMemory> device_memory(const Workload& workload, const Layout& layout,
                                        const ModelCost& cost, const std::vector<double>& alive);

}  // namespace cleave::plan
