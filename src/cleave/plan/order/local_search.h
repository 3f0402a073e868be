#pragma once

#include <cstdint>
#include <optional>

#include "cleave/plan/order/problem.h"

namespace cleave::plan::ordering {

/// How good orders are, and which.
struct Solution {
  Orders orders;
  double makespan = 0;
  double cost = 0;
  double score = 0;
};

/// Moves instructions that the makespan hangs on, late-acceptance style (Burke and Bykov, 2017): a
/// move stays if it is no worse than now, or than some steps ago. Returns the best orders met,
/// `start` among them.
Solution improve(const Problem& problem, const Solution& start, std::int64_t moves,
                 std::uint64_t seed);

/// Nothing if the orders cannot finish.
std::optional<Solution> evaluated(const Problem& problem, Orders orders);

}  // namespace cleave::plan::ordering
