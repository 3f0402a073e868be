#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cleave/spec/graph.h"

namespace cleave::plan {

/// What a group of a chain takes. Of cuts the one is best that lacks least; then the one whose
/// slowest group is fastest; then the one with the least sum of squares.
struct GroupCost {
  double seconds = 0;
  double excess = 0;  ///< beyond what the group's device has
};

/// Cuts a chain of `count` items into `stages` consecutive, non-empty groups: the size of each in
/// the best cut. Exact, by dynamic programming. Needs at least `stages` items, and costs that do
/// not fall when an item is added in front of a group.
std::vector<std::int64_t> cut_chain(
    std::int64_t count, int stages,
    const std::function<GroupCost(int stage, std::int64_t begin, std::int64_t end)>& cost);

/// The same for items with the given costs, on devices that are alike.
std::vector<std::int64_t> balance(std::span<const double> costs, int stages);

/// Whether a stage may begin with a segment of a model: a block, or what begins a module.
bool may_begin_stage(const Graph& model, std::size_t segment);

/// [part] segments of what no cut by blocks divides: what comes before the blocks, each block with
/// what goes with it, and what comes after them. What stands between two blocks goes with the first
/// of them, unless a module begins with it: then with the second.
std::vector<std::int64_t> parts_of(const Graph& model);

/// One part of a model reads another.
struct PartEdge {
  int from = 0;
  int to = 0;

  friend auto operator<=>(const PartEdge&, const PartEdge&) = default;
};

/// Which part reads which, ascending; empty if each reads the one before it alone.
std::vector<PartEdge> part_edges(const Graph& model);

/// The same for stages of so many parts each.
std::vector<PartEdge> stage_edges(const std::vector<PartEdge>& parts,
                                  const std::vector<std::int64_t>& sizes);

/// A partition says how many blocks each stage has; with what comes before the first block and
/// after the last it says how many parts.
std::vector<std::int64_t> with_ends(std::vector<std::int64_t> blocks);
std::vector<std::int64_t> without_ends(std::vector<std::int64_t> parts);

}  // namespace cleave::plan
