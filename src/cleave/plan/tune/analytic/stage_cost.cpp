#include "cleave/plan/tune/analytic/stage_cost.h"

#include <algorithm>
#include <utility>

#include "cleave/plan/tune/analytic/pipeline_time.h"
#include "cleave/plan/tune/partition.h"

namespace cleave::plan {
namespace {

using schedule::Recompute;

double kept_bytes(const SegmentCost& block, Recompute recompute) {
  if (recompute == Recompute::Full) return block.entry;
  return recompute == Recompute::Selective ? block.kept - block.scores : block.kept;
}

Holding holding_of(const Workload& workload, const Layout& layout, const PartCost& part) {
  const auto& [block, rest, count] = part;
  const Exposed zero = zero_exposed(workload, layout, block);
  const Recompute recompute = recompute_of(layout);
  const double again = recomputed_seconds(block, recompute);
  // Full recompute has one block's tensors at a time besides the entries of all.
  const double work = block.work + (recompute == Recompute::Full ? block.kept : 0);
  return {.time = {.forward = block.forward + rest.forward + zero.forward,
                   .input = block.input + rest.input + again + zero.backward,
                   .weight = block.weight + rest.weight},
          .recompute = again,
          .tensor_communication = block.tensor_communication,
          .data_communication = zero.forward + zero.backward,
          .parameters = block.parameters + rest.parameters,
          .trained = block.trained + rest.trained,
          .kept = kept_bytes(block, recompute) + rest.kept,
          .work = std::max(rest.work, work),
          .block = block.parameters};
}

}  // namespace

void Holding::add(const Holding& other, double count) {
  time.add_passes(other.time, count);
  recompute += count * other.recompute;
  tensor_communication += count * other.tensor_communication;
  data_communication += count * other.data_communication;
  parameters += count * other.parameters;
  trained += count * other.trained;
  kept += count * other.kept;
  once += count * other.once;
  work = std::max(work, other.work);
  block = std::max(block, other.block);
}

std::vector<std::int64_t> blocks_of_stages(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> blocks(stages, layers / stages);
  std::int64_t left = layers % stages;
  // Second, third, … stage first: the ends come last, the head's before the embedding's.
  for (std::int64_t s = 1; s < stages && left > 0; ++s, --left) ++blocks[s];
  return blocks;
}

std::vector<Holding> part_holdings(const Workload& workload, const Layout& layout,
                                   const std::vector<PartCost>& parts) {
  std::vector<Holding> holdings;
  for (const PartCost& part : parts) holdings.push_back(holding_of(workload, layout, part));
  if (has_loss_over_step(workload.model)) return holdings;
  // The head runs its backward right behind its F, so it keeps one microbatch.
  holdings.back().once = std::exchange(holdings.back().kept, 0);
  return holdings;
}

std::vector<Holding> stage_holdings(const Workload& workload, const Layout& layout,
                                    const std::vector<PartCost>& parts) {
  const std::vector<Holding> all = part_holdings(workload, layout, parts);
  const std::vector<std::int64_t> sizes = with_ends(
      layout.partition.empty() ? blocks_of_stages(workload.model.blocks(), layout.stages())
                               : layout.partition);
  std::vector<Holding> stages;
  std::size_t part = 0;
  std::int64_t left = parts[part].count;
  for (std::int64_t size : sizes) {
    Holding& stage = stages.emplace_back();
    while (size > 0) {
      const std::int64_t taken = std::min(size, left);
      stage.add(all[part], static_cast<double>(taken));
      size -= taken;
      left -= taken;
      if (left == 0 && ++part < parts.size()) left = parts[part].count;
    }
  }
  return stages;
}

std::vector<Holding> device_holdings(const Workload& workload, const Layout& layout,
                                     const std::vector<PartCost>& parts) {
  const std::vector<Holding> stages = stage_holdings(workload, layout, parts);
  std::vector<Holding> devices(static_cast<std::size_t>(layout.pipeline));
  for (std::size_t s = 0; s < stages.size(); ++s)
    devices[device_of_stage(layout, static_cast<int>(s))].add(stages[s]);
  const int last = device_of_stage(layout, layout.stages() - 1);
  if (workload.model.tie_embeddings && last == device_of_stage(layout, 0)) {
    devices[last].parameters -= parts.back().rest.parameters;
    devices[last].trained -= parts.back().rest.trained;
  }
  return devices;
}

std::vector<StageCosts> stage_times(const Workload& workload, const Layout& layout,
                                    const std::vector<PartCost>& parts) {
  const double hop = hop_seconds(workload, layout);
  std::vector<StageCosts> times;
  for (const Holding& stage : stage_holdings(workload, layout, parts)) {
    times.push_back(stage.time);
    times.back().forward += hop;
    if (stage.time.input + stage.time.weight > 0) times.back().input += hop;
  }
  return times;
}

}  // namespace cleave::plan
