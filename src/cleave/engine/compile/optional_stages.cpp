#include "cleave/engine/compile/optional_stages.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cleave/engine/compile/stage_sizes.h"
#include "cleave/engine/compile/wires.h"

namespace cleave::engine {
namespace {

using schedule::Instruction;
using schedule::Op;

/// [stage] -> the sizes of its parts: runs of segments that are all optional, or none of them.
std::vector<std::vector<std::int64_t>> parts_of(const std::vector<std::int64_t>& sizes,
                                                const std::vector<bool>& optional) {
  std::vector<std::vector<std::int64_t>> parts;
  std::size_t segment = 0;
  for (const std::int64_t size : sizes) {
    auto& own = parts.emplace_back();
    for (std::int64_t k = 0; k < size; ++k, ++segment) {
      if (k == 0 || optional[segment] != optional[segment - 1]) own.push_back(0);
      ++own.back();
    }
  }
  return parts;
}

/// F runs the parts first to last, everything backward last to first.
std::vector<Instruction> cut(const std::vector<Instruction>& list,
                             const std::vector<std::vector<std::int64_t>>& parts,
                             const std::vector<int>& first) {
  std::vector<Instruction> out;
  for (const Instruction& whole : list) {
    const int count = static_cast<int>(parts[whole.stage].size());
    for (int k = 0; k < count; ++k) {
      Instruction part = whole;
      part.stage = first[whole.stage] + (whole.op == Op::Forward ? k : count - 1 - k);
      out.push_back(part);
    }
  }
  return out;
}

}  // namespace

schedule::Program with_segments(schedule::Program order, const Graph& model,
                                const CompileOptions& options) {
  const std::vector<std::int64_t> sizes = segments_per_stage(model, options.layout, order.stages);
  order.segments.assign(sizes.begin(), sizes.end());
  if (!options.leaves_out()) return order;
  const auto parts = parts_of(sizes, optional_segments(model));
  std::vector<int> first;
  std::vector<std::vector<int>> placement;
  std::vector<std::int64_t> cut_sizes;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    first.push_back(static_cast<int>(placement.size()));
    placement.insert(placement.end(), parts[s].size(), order.placement[s]);
    std::ranges::copy(parts[s], std::back_inserter(cut_sizes));
  }
  if (placement.size() == order.placement.size()) return order;
  for (auto& list : order.lists) list = cut(list, parts, first);
  order.stages = static_cast<int>(placement.size());
  order.placement = std::move(placement);
  order.segments.assign(cut_sizes.begin(), cut_sizes.end());
  order.edges = Wiring(model, cut_sizes).edges();
  return order;
}

std::vector<int> optional_stages(const CompiledStep& step) {
  const std::vector<bool> optional = optional_segments(step.model);
  std::vector<int> stages;
  std::size_t segment = 0;
  for (int s = 0; s < std::ssize(step.stages); ++s) {
    const auto begin = optional.begin() + static_cast<std::ptrdiff_t>(segment);
    segment += step.stages[s].size();
    const auto end = optional.begin() + static_cast<std::ptrdiff_t>(segment);
    if (std::count(begin, end, false) == 0) stages.push_back(s);
  }
  return stages;
}

}  // namespace cleave::engine
