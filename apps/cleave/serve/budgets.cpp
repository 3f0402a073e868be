#include "serve/budgets.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>

#include "cleave/train/tune/regroup.h"

namespace cleave::app {

using comm::Candidate;

std::vector<std::int64_t> budgets_of(const std::vector<std::int64_t>& given,
                                     std::vector<Candidate>& candidates) {
  const auto budget = [&](const Candidate& candidate) {
    const auto seat = static_cast<std::size_t>(candidate.seat);
    const std::int64_t configured = given.empty()         ? train::kUnlimited
                                    : given.size() == 1   ? given[0]
                                    : seat < given.size() ? given[seat]
                                                          : std::ranges::min(given);
    if (candidate.memory == 0 || configured == train::kUnlimited)
      return std::max(candidate.memory, configured);
    return std::min(candidate.memory, configured);
  };
  const auto room = [&](const Candidate& candidate) {
    const std::int64_t bytes = budget(candidate);
    return bytes == train::kUnlimited ? std::numeric_limits<std::int64_t>::max() : bytes;
  };
  std::ranges::stable_sort(candidates.begin() + 1, candidates.end(), std::ranges::greater(), room);
  std::vector<std::int64_t> budgets;
  std::ranges::transform(candidates, std::back_inserter(budgets), budget);
  return budgets;
}

}  // namespace cleave::app
