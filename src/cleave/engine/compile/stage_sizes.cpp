#include "cleave/engine/compile/stage_sizes.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/engine/compile/placement.h"
#include "cleave/plan/tune/layout_check.h"
#include "cleave/plan/tune/partition.h"

namespace cleave::engine {

std::vector<std::int64_t> segments_per_stage(const Graph& model, const Layout& layout, int stages) {
  const std::int64_t blocks = block_count(model);
  if (layout.placement != Placement::Even) return placed_segments(model, layout, stages);
  if (layout.partition.empty()) {
    plan::check_stages(stages, blocks, std::ssize(model.segments) - blocks);
    std::vector<double> costs;
    for (const SegmentSpec& segment : model.segments)
      costs.push_back(static_cast<double>(flops(segment)));
    return plan::balance(costs, stages);
  }
  if (layout.cuts.empty())
    plan::check_partition_stages(layout.partition, layout.pipeline, stages / layout.pipeline);
  plan::check_partition(layout.partition, blocks);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(stages), 0);
  std::size_t stage = 0;
  std::int64_t placed = 0;  // blocks in this stage
  std::int64_t left = blocks;
  for (std::size_t s = 0; s < model.segments.size(); ++s) {
    const bool block = model.segments[s].block;
    const bool opens = block || (left < blocks && plan::may_begin_stage(model, s));
    if (left == 0) {
      stage = sizes.size() - 1;
    } else if (opens) {
      for (; placed == layout.partition[stage]; placed = 0) ++stage;
    }
    placed += block ? 1 : 0;
    left -= block ? 1 : 0;
    ++sizes[stage];
  }
  require(std::ranges::all_of(sizes, [](std::int64_t size) { return size > 0; }),
          "parallel.partition leaves a stage empty; give every stage but the first and the last a "
          "layer");
  return sizes;
}

}  // namespace cleave::engine
