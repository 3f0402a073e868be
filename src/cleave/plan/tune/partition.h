#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cleave::plan {

/// Cuts a chain of items with the given costs into `stages` consecutive, non-empty groups so that
/// the most expensive group is as cheap as possible, and among those cuts the sum of squares is
/// smallest. Returns the size of each group. Exact, by dynamic programming. Needs at least `stages`
/// items.
std::vector<std::int64_t> balance(std::span<const double> costs, int stages);

}  // namespace cleave::plan
