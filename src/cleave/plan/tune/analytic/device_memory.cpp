#include "cleave/plan/tune/analytic/device_memory.h"

#include <algorithm>

#include "cleave/plan/hardware/formats.h"
#include "cleave/plan/tune/analytic/module_cost.h"
#include "cleave/plan/tune/analytic/pipeline_time.h"

namespace cleave::plan {
namespace {

using schedule::Recompute;

constexpr double kWeight = 2;
constexpr double kSplitGradient = 2;  // ZeRO reduces and keeps them in bf16
constexpr double kOptimizer = 12;

/// ZeRO-3 holds the block that runs and the one that is being gathered.
constexpr double kGatheredBlocks = 2;

double kept_bytes(const SegmentCost& segment, Recompute recompute) {
  if (recompute == Recompute::Full) return segment.entry;
  return recompute == Recompute::Selective ? segment.kept - segment.scores : segment.kept;
}

}  // namespace

DeviceMemory state_memory(const Layout& layout, double parameters) {
  const double replicas = static_cast<double>(layout.data);
  const auto over = [&](int stage) { return layout.zero >= stage ? replicas : 1; };
  const double gradient = layout.zero >= 1 && layout.data > 1 ? kSplitGradient : kGradient;
  return {.weights = kWeight * parameters / over(3),
          .gradients = gradient * parameters / over(2),
          .optimizer = kOptimizer * parameters / over(1)};
}

double gathered_bytes(double parameters) {
  return kGatheredBlocks * kWeight * parameters;
}

namespace {

/// What a device has of the model.
struct Holding {
  double blocks = 0;
  bool embedding = false;
  bool head = false;
};

std::vector<Holding> holdings(const Workload& workload, const Layout& layout) {
  const int stages = layout.stages();
  const std::vector<std::int64_t> blocks = blocks_of_stages(workload.model.layers, stages);
  std::vector<Holding> result(layout.pipeline);
  for (int s = 0; s < stages; ++s) {
    Holding& device = result[device_of_stage(layout, s)];
    device.blocks += static_cast<double>(blocks[s]);
    device.embedding |= s == 0;
    device.head |= s == stages - 1;
  }
  return result;
}

double parameters_of(const Workload& workload, const Holding& holding, const ModelCost& cost) {
  double parameters = holding.blocks * cost.block.parameters;
  if (holding.embedding) parameters += cost.embedding.parameters;
  const bool shared = holding.embedding && workload.model.tie_embeddings;
  if (holding.head && !shared) parameters += cost.head.parameters;
  return parameters;
}

}  // namespace

std::vector<double> device_parameters(const Workload& workload, const Layout& layout,
                                      const ModelCost& cost) {
  if (!cost.parts.empty()) return module_parameters(workload, layout, cost.parts);
  std::vector<double> parameters;
  for (const Holding& holding : holdings(workload, layout)) {
    parameters.push_back(parameters_of(workload, holding, cost));
  }
  return parameters;
}

std::vector<DeviceMemory> device_memory(const Workload& workload, const Layout& layout,
                                        const ModelCost& cost, const std::vector<double>& alive) {
  if (!cost.parts.empty()) return module_memory(workload, layout, cost.parts, alive);
  const double block = kept_bytes(cost.block, recompute_of(layout));
  // Full recompute has one block's tensors at a time besides the entries of all.
  const double work =
      cost.block.work + (recompute_of(layout) == Recompute::Full ? cost.block.kept : 0);
  std::vector<DeviceMemory> devices;
  for (const Holding& holding : holdings(workload, layout)) {
    DeviceMemory memory = state_memory(layout, parameters_of(workload, holding, cost));
    if (layout.zero == 3 && layout.data > 1) {
      memory.weights += gathered_bytes(cost.block.parameters);
    }
    memory.activations = alive[devices.size()] * holding.blocks * block;
    memory.work = work;
    if (holding.head) {
      // The head runs its backward right behind its F.
      memory.activations += cost.head.kept;
      memory.work = std::max(work, cost.head.work);
    }
    devices.push_back(memory);
  }
  return devices;
}

}  // namespace cleave::plan
