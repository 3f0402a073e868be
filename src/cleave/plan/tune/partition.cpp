#include "cleave/plan/tune/partition.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "cleave/base/check.h"

namespace cleave::plan {

std::vector<std::int64_t> cut_chain(
    std::int64_t count, int stages,
    const std::function<GroupCost(int stage, std::int64_t begin, std::int64_t end)>& cost) {
  CLEAVE_CHECK(stages >= 1 && stages <= count, stages, " groups of ", count, " items");
  struct Cell {
    double excess = INFINITY;
    double slowest = 0;
    double squares = 0;
    std::int64_t begin = 0;  ///< of the last group
    auto key() const { return std::tuple(excess, slowest, squares); }
  };
  // best[s][n]: of the first n items in s groups.
  std::vector<std::vector<Cell>> best(stages + 1, std::vector<Cell>(count + 1));
  best[0][0].excess = 0;
  for (int s = 1; s <= stages; ++s) {
    for (std::int64_t n = s; n <= count; ++n) {
      Cell& found = best[s][n];
      for (std::int64_t begin = n - 1; begin >= s - 1; --begin) {
        const GroupCost group = cost(s - 1, begin, n);
        // Larger groups take and lack no less, so none of them is better than what was found.
        const bool slower = found.excess == 0 && group.seconds > found.slowest;
        if (slower || group.excess > found.excess) break;
        const Cell& before = best[s - 1][begin];
        const Cell cell{before.excess + group.excess, std::max(before.slowest, group.seconds),
                        before.squares + group.seconds * group.seconds, begin};
        if (cell.key() <= found.key()) found = cell;  // of equal ones the largest last group
      }
    }
  }
  std::vector<std::int64_t> sizes(stages);
  std::int64_t end = count;
  for (int s = stages; s > 0; --s) {
    sizes[s - 1] = end - best[s][end].begin;
    end = best[s][end].begin;
  }
  return sizes;
}

std::vector<std::int64_t> balance(std::span<const double> costs, int stages) {
  std::vector<double> sums = {0};
  for (const double cost : costs) sums.push_back(sums.back() + cost);
  return cut_chain(std::ssize(costs), stages, [&](int, std::int64_t begin, std::int64_t end) {
    return GroupCost{.seconds = sums[end] - sums[begin]};
  });
}

bool may_begin_stage(const Graph& model, std::size_t segment) {
  const SegmentSpec& one = model.segments[segment];
  return one.block || (segment > 0 && one.module != model.segments[segment - 1].module);
}

std::vector<std::int64_t> parts_of(const Graph& model) {
  std::vector<std::int64_t> parts = {0};
  std::int64_t left = block_count(model);
  bool begun = false;  // the part has no block yet, and is not the first
  for (std::size_t s = 0; s < model.segments.size(); ++s) {
    const bool block = model.segments[s].block;
    const bool between = left > 0 && parts.size() > 1;
    const bool opens = !begun && (block || left == 0 || (between && may_begin_stage(model, s)));
    if (opens) parts.push_back(0);
    begun = !block && (opens || begun);
    left -= block ? 1 : 0;
    ++parts.back();
  }
  return parts;
}

namespace {

/// Without those inside a group; empty if the groups form a chain.
std::vector<PartEdge> between_groups(const std::vector<PartEdge>& edges,
                                     const std::vector<int>& group_of) {
  std::set<PartEdge> found;
  for (const PartEdge& edge : edges) {
    const PartEdge between{group_of[edge.from], group_of[edge.to]};
    if (between.from != between.to) found.insert(between);
  }
  const bool chain =
      std::ranges::all_of(found, [](const PartEdge& edge) { return edge.to == edge.from + 1; });
  if (chain && std::ssize(found) == group_of.back()) return {};
  return {found.begin(), found.end()};
}

/// [item] its group.
std::vector<int> groups_of(const std::vector<std::int64_t>& sizes) {
  std::vector<int> groups;
  for (std::size_t g = 0; g < sizes.size(); ++g)
    groups.insert(groups.end(), static_cast<std::size_t>(sizes[g]), static_cast<int>(g));
  return groups;
}

}  // namespace

std::vector<PartEdge> part_edges(const Graph& model) {
  std::vector<PartEdge> edges;
  for (const Graph::Edge& edge : model.edges)
    if (edge.from.segment != Graph::kData) edges.push_back({edge.from.segment, edge.to.segment});
  return between_groups(edges, groups_of(parts_of(model)));
}

std::vector<PartEdge> stage_edges(const std::vector<PartEdge>& parts,
                                  const std::vector<std::int64_t>& sizes) {
  return parts.empty() ? parts : between_groups(parts, groups_of(sizes));
}

std::vector<std::int64_t> with_ends(std::vector<std::int64_t> blocks) {
  ++blocks.front();
  ++blocks.back();
  return blocks;
}

std::vector<std::int64_t> without_ends(std::vector<std::int64_t> parts) {
  --parts.front();
  --parts.back();
  return parts;
}

}  // namespace cleave::plan
