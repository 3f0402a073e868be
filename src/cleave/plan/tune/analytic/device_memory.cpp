#include "cleave/plan/tune/analytic/device_memory.h"

#include <algorithm>

#include "cleave/plan/hardware/formats.h"
#include "cleave/plan/tune/partition.h"

namespace cleave::plan {
namespace {

constexpr double kWeight = 2;
constexpr double kSplitGradient = 2;  // ZeRO reduces and keeps them in bf16
constexpr double kOptimizer = 12;

/// ZeRO-3 holds the block that runs and the one that is being gathered.
constexpr double kGatheredBlocks = 2;

}  // namespace

DeviceMemory state_memory(const Layout& layout, double parameters) {
  const double replicas = static_cast<double>(layout.data);
  const auto over = [&](int stage) { return layout.zero >= stage ? replicas : 1; };
  const double gradient = layout.zero >= 1 && layout.data > 1 ? kSplitGradient : kGradient;
  return {.weights = kWeight * parameters / over(3),
          .gradients = gradient * parameters / over(2),
          .optimizer = kOptimizer * parameters / over(1)};
}

DeviceMemory device_memory(const Layout& layout, const Holding& held, double alive) {
  DeviceMemory memory = state_memory(layout, held.trained);
  memory.weights = state_memory(layout, held.parameters).weights;
  if (layout.zero == 3 && layout.data > 1) memory.weights += kGatheredBlocks * kWeight * held.block;
  memory.activations = alive * held.kept + held.once;
  memory.work = held.work;
  return memory;
}

std::vector<std::int64_t> cut_modules(const Workload& workload, const Layout& layout,
                                      const std::vector<PartCost>& parts,
                                      const std::vector<double>& alive) {
  // before[n]: of the first n parts.
  std::vector<Holding> before(1);
  for (const Holding& part : part_holdings(workload, layout, parts)) {
    before.push_back(before.back());
    before.back().add(part);
  }
  const int stages = layout.stages();
  const double budget = static_cast<double>(usable_memory(*workload.cluster.hardware));
  const auto cost = [&](int stage, std::int64_t begin, std::int64_t end) {
    // The largest part and the neediest work are those of all parts up to here.
    Holding held = before[end];
    const Holding& less = before[begin];
    const double seconds =
        held.time.passes() - less.time.forward - less.time.input - less.time.weight;
    if (stages != layout.pipeline) return GroupCost{.seconds = seconds};
    held.parameters -= less.parameters;
    held.trained -= less.trained;
    held.kept -= less.kept;
    held.once -= less.once;
    const double bytes = device_memory(layout, held, alive[stage]).all();
    return GroupCost{.seconds = seconds, .excess = std::max(0.0, bytes - budget)};
  };
  return without_ends(cut_chain(std::ssize(parts), stages, cost));
}

}  // namespace cleave::plan
