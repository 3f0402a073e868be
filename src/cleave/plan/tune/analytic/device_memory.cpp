#include "cleave/plan/tune/analytic/device_memory.h"

#include <algorithm>

#include "cleave/plan/hardware/formats.h"
#include "cleave/schedule/generators.h"

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

/// The stage of each chunk of a device: interleaved, or a V whose second half runs backward.
std::vector<std::int64_t> stages_of_device(const Layout& layout, std::int64_t device) {
  const bool v = schedule::schedule_named(layout.schedule).fold == schedule::Fold::V;
  std::vector<std::int64_t> stages;
  for (std::int64_t chunk = 0; chunk < layout.chunks; ++chunk) {
    const std::int64_t first = chunk * layout.pipeline;
    stages.push_back(v && chunk % 2 == 1 ? first + layout.pipeline - 1 - device : first + device);
  }
  return stages;
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

namespace {

/// What a device has of the model.
struct Holding {
  double blocks = 0;
  bool embedding = false;
  bool head = false;
};

std::vector<Holding> holdings(const Workload& workload, const Layout& layout) {
  const std::int64_t stages = layout.pipeline * layout.chunks;
  const std::vector<std::int64_t> blocks = blocks_of_stages(workload.model.layers, stages);
  std::vector<Holding> result(layout.pipeline);
  for (std::int64_t d = 0; d < layout.pipeline; ++d) {
    for (const std::int64_t s : stages_of_device(layout, d)) {
      result[d].blocks += static_cast<double>(blocks[s]);
      result[d].embedding |= s == 0;
      result[d].head |= s == stages - 1;
    }
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
  std::vector<double> parameters;
  for (const Holding& holding : holdings(workload, layout)) {
    parameters.push_back(parameters_of(workload, holding, cost));
  }
  return parameters;
}

std::vector<DeviceMemory> device_memory(const Workload& workload, const Layout& layout,
                                        const ModelCost& cost, const std::vector<double>& alive) {
  const double block = kept_bytes(cost.block, layout.recompute);
  // Full recompute has one block's tensors at a time besides the entries of all.
  const double work = cost.block.work + (layout.recompute == Recompute::Full ? cost.block.kept : 0);
  std::vector<DeviceMemory> devices;
  for (const Holding& holding : holdings(workload, layout)) {
    DeviceMemory memory = state_memory(layout, parameters_of(workload, holding, cost));
    if (layout.zero == 3 && layout.data > 1) {
      memory.weights += kGatheredBlocks * kWeight * cost.block.parameters;
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
