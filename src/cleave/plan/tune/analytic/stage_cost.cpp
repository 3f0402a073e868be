#include "cleave/plan/tune/analytic/stage_cost.h"

#include <algorithm>

#include "cleave/plan/hardware/formats.h"
#include "cleave/plan/tune/analytic/module_cost.h"

namespace cleave::plan {
namespace {

using schedule::Recompute;

/// Communication that runs beside arithmetic takes processors and memory bandwidth away from it.
constexpr double kContention = 0.2;

}  // namespace

double recomputed_seconds(const SegmentCost& block, Recompute recompute) {
  if (block.backward() == 0) return 0;
  if (recompute == Recompute::Full) return block.forward;
  return recompute == Recompute::Selective ? block.core_attention : 0;
}

double exposed_seconds(double communication, double arithmetic) {
  return std::max(0.0, communication - arithmetic) +
         kContention * std::min(communication, arithmetic);
}

std::vector<std::int64_t> blocks_of_stages(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> blocks(stages, layers / stages);
  std::int64_t left = layers % stages;
  // Second, third, … stage first: the ends come last, the head's before the embedding's.
  for (std::int64_t s = 1; s < stages && left > 0; ++s, --left) ++blocks[s];
  return blocks;
}

CollectiveGroup data_group(const Workload& workload, const Layout& layout) {
  const int room = std::max(1, workload.cluster.hardware->node / layout.tensor);
  return {layout.data, std::min(layout.data, room)};
}

double hop_seconds(const Workload& workload, const Layout& layout) {
  if (layout.pipeline == 1) return 0;
  const Hardware& hardware = *workload.cluster.hardware;
  const double x = kElement * static_cast<double>(layout.microbatch * workload.sequence) *
                   static_cast<double>(workload.model.hidden);
  const bool together = 2 * layout.tensor * layout.data <= hardware.node;
  double seconds = message_seconds(hardware, x / static_cast<double>(layout.tensor),
                                   together ? Distance::SameNode : Distance::OtherNode);
  // Each member of a tensor group sends its part; what arrives has to be whole again.
  if (layout.tensor > 1 && !layout.sequence_parallel) {
    seconds += gather_seconds(hardware, x, {layout.tensor, std::min(layout.tensor, hardware.node)});
  }
  // Between two chunks of a device there is work to do meanwhile.
  const bool overlaps = layout.chunks > 1 && hardware.software == Software::Current;
  return overlaps ? exposed_seconds(seconds, seconds) : seconds;
}

Exposed zero_exposed(const Workload& workload, const Layout& layout, const SegmentCost& block) {
  if (layout.zero < 2 || layout.data == 1) return {};
  const Hardware& hardware = *workload.cluster.hardware;
  const CollectiveGroup group = data_group(workload, layout);
  const double pass = gather_seconds(hardware, kElement * block.parameters, group);
  const double forward = layout.zero == 3 ? exposed_seconds(pass, block.forward) : 0;
  if (block.backward() == 0) return {forward, 0};
  const double backward = block.backward() + recomputed_seconds(block, recompute_of(layout));
  if (layout.zero == 2) return {0, exposed_seconds(pass, backward)};
  const double reduce = gather_seconds(hardware, kGradient * block.trained, group);
  return {forward, exposed_seconds(pass + reduce, backward)};
}

BlockOverheads block_overheads(const Workload& workload, const Layout& layout,
                               const ModelCost& cost) {
  if (!cost.parts.empty()) return module_overheads(workload, layout, cost.parts);
  const Exposed zero = zero_exposed(workload, layout, cost.block);
  return {.recompute = recomputed_seconds(cost.block, recompute_of(layout)),
          .tensor_communication = cost.block.tensor_communication,
          .data_communication = zero.forward + zero.backward};
}

std::vector<StageCosts> stage_times(const Workload& workload, const Layout& layout,
                                    const ModelCost& cost) {
  if (!cost.parts.empty()) return module_times(workload, layout, cost.parts);
  const int stages = layout.stages();
  const std::vector<std::int64_t> blocks = blocks_of_stages(workload.model.layers, stages);
  const double hop = hop_seconds(workload, layout);
  const Exposed zero = zero_exposed(workload, layout, cost.block);
  const StageCosts block{
      .forward = cost.block.forward + zero.forward,
      .input =
          cost.block.input + recomputed_seconds(cost.block, recompute_of(layout)) + zero.backward,
      .weight = cost.block.weight};
  std::vector<StageCosts> times(stages);
  for (int s = 0; s < stages; ++s) {
    const double count = static_cast<double>(blocks[s]);
    times[s] = {count * block.forward + hop, count * block.input + hop, count * block.weight};
  }
  const auto add = [](StageCosts& time, const SegmentCost& segment) {
    time.forward += segment.forward;
    time.input += segment.input;
    time.weight += segment.weight;
  };
  add(times.front(), cost.embedding);
  add(times.back(), cost.head);
  return times;
}

}  // namespace cleave::plan
