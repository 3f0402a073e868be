#include "cleave/plan/tune/analytic/module_cost.h"

#include <algorithm>
#include <utility>

#include "cleave/plan/hardware/formats.h"
#include "cleave/plan/tune/analytic/device_memory.h"
#include "cleave/plan/tune/analytic/pipeline_time.h"
#include "cleave/plan/tune/partition.h"
#include "cleave/spec/trainable.h"

namespace cleave::plan {
namespace {

using schedule::Recompute;

/// What the parts of a stage come to.
struct PartSums {
  StageCosts time;
  double parameters = 0;
  double trained = 0;
  double kept = 0;   ///< bytes of each microbatch alive
  double once = 0;   ///< bytes that the head keeps of one
  double work = 0;   ///< bytes of the neediest
  double block = 0;  ///< parameters of the largest block

  void add(const PartSums& other) {
    time.forward += other.time.forward;
    time.input += other.time.input;
    time.weight += other.time.weight;
    parameters += other.parameters;
    trained += other.trained;
    kept += other.kept;
    once += other.once;
    work = std::max(work, other.work);
    block = std::max(block, other.block);
  }
};

double kept_of_block(const SegmentCost& block, Recompute recompute) {
  if (recompute == Recompute::Full) return block.entry;
  return recompute == Recompute::Selective ? block.kept - block.scores : block.kept;
}

PartSums sums_of(const Workload& workload, const Layout& layout, const PartCost& part) {
  const Exposed zero = zero_exposed(workload, layout, part.block);
  const Recompute recompute = recompute_of(layout);
  PartSums sums{
      .time = {.forward = part.block.forward + part.rest.forward + zero.forward,
               .input = part.block.input + part.rest.input +
                        recomputed_seconds(part.block, recompute) + zero.backward,
               .weight = part.block.weight + part.rest.weight},
      .parameters = part.block.parameters + part.rest.parameters,
      .trained = part.block.trained + part.rest.trained,
      .kept = kept_of_block(part.block, recompute) + part.rest.kept,
      .work = std::max(part.rest.work,
                       part.block.work + (recompute == Recompute::Full ? part.block.kept : 0)),
      .block = part.block.parameters};
  return sums;
}

/// [part]. The head runs its backward right behind its F, so it keeps one microbatch.
std::vector<PartSums> all_sums(const Workload& workload, const Layout& layout,
                               const std::vector<PartCost>& parts) {
  std::vector<PartSums> sums;
  for (const PartCost& part : parts) sums.push_back(sums_of(workload, layout, part));
  sums.back().once = std::exchange(sums.back().kept, 0);
  return sums;
}

/// [stage]; the first and the last have a part besides their blocks.
std::vector<PartSums> stage_sums(const Workload& workload, const Layout& layout,
                                 const std::vector<PartCost>& parts) {
  const std::vector<PartSums> all = all_sums(workload, layout, parts);
  std::vector<PartSums> stages;
  std::size_t next = 0;
  for (std::size_t s = 0; s < layout.partition.size(); ++s) {
    std::int64_t count = layout.partition[s];
    count += (s == 0 ? 1 : 0) + (s + 1 == layout.partition.size() ? 1 : 0);
    stages.emplace_back();
    for (; count > 0; --count) stages.back().add(all[next++]);
  }
  return stages;
}

std::vector<PartSums> device_sums(const Layout& layout, const std::vector<PartSums>& stages) {
  std::vector<PartSums> devices(static_cast<std::size_t>(layout.pipeline));
  for (std::size_t s = 0; s < stages.size(); ++s)
    devices[device_of_stage(layout, static_cast<int>(s))].add(stages[s]);
  return devices;
}

DeviceMemory memory_of(const Layout& layout, const PartSums& held, double alive) {
  DeviceMemory memory = state_memory(layout, held.trained);
  memory.weights = state_memory(layout, held.parameters).weights;
  if (layout.zero == 3 && layout.data > 1) memory.weights += gathered_bytes(held.block);
  memory.activations = alive * held.kept + held.once;
  memory.work = held.work;
  return memory;
}

SegmentCost& operator+=(SegmentCost& sum, const SegmentCost& other) {
  sum.forward += other.forward;
  sum.input += other.input;
  sum.weight += other.weight;
  sum.tensor_communication += other.tensor_communication;
  sum.parameters += other.parameters;
  sum.trained += other.trained;
  sum.kept += other.kept;
  sum.work = std::max(sum.work, other.work);
  return sum;
}

}  // namespace

bool has_modules(const ModelShape& model) {
  return model.vision.layers > 0;
}

std::vector<PartCost> part_costs(const Workload& workload, const Layout& layout,
                                 const SegmentContext& context) {
  Graph model = model_graph(workload, layout.microbatch);
  leave_out_unwanted(model);
  const std::vector<bool> wants = wants_gradients(model);
  std::vector<PartCost> parts;
  std::size_t segment = 0;
  for (const std::int64_t count : parts_of(model)) {
    PartCost& part = parts.emplace_back();
    for (std::int64_t k = 0; k < count; ++k, ++segment) {
      SegmentContext own = context;
      own.wants_gradient = wants[segment];
      const SegmentSpec& spec = model.segments[segment];
      if (spec.block)
        part.block = segment_cost(spec, own);
      else
        part.rest += segment_cost(spec, own);
    }
  }
  return parts;
}

std::vector<std::int64_t> cut_modules(const Workload& workload, const Layout& layout,
                                      const std::vector<PartCost>& parts,
                                      const std::vector<double>& alive) {
  // before[n]: of the first n parts.
  std::vector<PartSums> before(1);
  for (const PartSums& part : all_sums(workload, layout, parts)) {
    before.push_back(before.back());
    before.back().add(part);
  }
  const int stages = layout.stages();
  const double budget = static_cast<double>(usable_memory(*workload.cluster.hardware));
  const auto cost = [&](int stage, std::int64_t begin, std::int64_t end) {
    PartSums held = before[end];  // whose largest part and neediest work are of all up to here
    const PartSums& less = before[begin];
    const double seconds = held.time.forward + held.time.input + held.time.weight -
                           less.time.forward - less.time.input - less.time.weight;
    if (stages != layout.pipeline) return GroupCost{.seconds = seconds};
    held.parameters -= less.parameters;
    held.trained -= less.trained;
    held.kept -= less.kept;
    held.once -= less.once;
    const double bytes = memory_of(layout, held, alive[stage]).all();
    return GroupCost{.seconds = seconds, .excess = std::max(0.0, bytes - budget)};
  };
  std::vector<std::int64_t> sizes = cut_chain(std::ssize(parts), stages, cost);
  --sizes.front();
  --sizes.back();
  return sizes;
}

std::vector<StageCosts> module_times(const Workload& workload, const Layout& layout,
                                     const std::vector<PartCost>& parts) {
  const double hop = hop_seconds(workload, layout);
  std::vector<StageCosts> times;
  for (const PartSums& stage : stage_sums(workload, layout, parts)) {
    times.push_back(stage.time);
    times.back().forward += hop;
    if (stage.time.input + stage.time.weight > 0) times.back().input += hop;
  }
  return times;
}

BlockOverheads module_overheads(const Workload& workload, const Layout& layout,
                                const std::vector<PartCost>& parts) {
  BlockOverheads sum;
  for (const PartCost& part : parts) {
    const Exposed zero = zero_exposed(workload, layout, part.block);
    sum.recompute += recomputed_seconds(part.block, recompute_of(layout));
    sum.tensor_communication += part.block.tensor_communication;
    sum.data_communication += zero.forward + zero.backward;
  }
  const double blocks = static_cast<double>(workload.model.blocks());
  return {sum.recompute / blocks, sum.tensor_communication / blocks,
          sum.data_communication / blocks};
}

std::vector<DeviceMemory> module_memory(const Workload& workload, const Layout& layout,
                                        const std::vector<PartCost>& parts,
                                        const std::vector<double>& alive) {
  std::vector<DeviceMemory> memory;
  for (const PartSums& held : device_sums(layout, stage_sums(workload, layout, parts)))
    memory.push_back(memory_of(layout, held, alive[memory.size()]));
  return memory;
}

std::vector<double> module_parameters(const Workload& workload, const Layout& layout,
                                      const std::vector<PartCost>& parts) {
  std::vector<double> trained;
  for (const PartSums& held : device_sums(layout, stage_sums(workload, layout, parts)))
    trained.push_back(held.trained);
  return trained;
}

}  // namespace cleave::plan
