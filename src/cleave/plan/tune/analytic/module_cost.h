#pragma once

#include <cstdint>
#include <vector>

#include "cleave/plan/tune/analytic/stage_cost.h"
#include "cleave/plan/tune/prediction.h"

namespace cleave::plan {

/// Whether a model has modules, whose blocks are not alike: a tower of images, and a language
/// model.
bool has_modules(const ModelShape& model);

/// [part] of a model with modules, as parts_of() cuts it. What no gradient is wanted of has no
/// backward pass and keeps nothing, and what does not learn has no W.
std::vector<PartCost> part_costs(const Workload& workload, const Layout& layout,
                                 const SegmentContext& context);

/// Blocks of each stage in the cut whose slowest stage is fastest, within the memory of a device
/// where each has one stage. `alive` says how many microbatches each device holds at its peak.
std::vector<std::int64_t> cut_modules(const Workload& workload, const Layout& layout,
                                      const std::vector<PartCost>& parts,
                                      const std::vector<double>& alive);

/// What stage_times, block_overheads, device_memory and device_parameters say of other models, for
/// a layout with a partition.
std::vector<StageCosts> module_times(const Workload& workload, const Layout& layout,
                                     const std::vector<PartCost>& parts);
BlockOverheads module_overheads(const Workload& workload, const Layout& layout,
                                const std::vector<PartCost>& parts);
std::vector<DeviceMemory> module_memory(const Workload& workload, const Layout& layout,
                                        const std::vector<PartCost>& parts,
                                        const std::vector<double>& alive);
/// Those that learn.
std::vector<double> module_parameters(const Workload& workload, const Layout& layout,
                                      const std::vector<PartCost>& parts);

}  // namespace cleave::plan
