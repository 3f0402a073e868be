#include "cleave/plan/tune/partition.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "cleave/base/check.h"

namespace cleave::plan {

std::vector<std::int64_t> balance(std::span<const double> costs, int stages) {
  const int count = static_cast<int>(costs.size());
  CLEAVE_CHECK(stages >= 1 && stages <= count, stages, " groups of ", count, " items");
  std::vector<double> sums(count + 1, 0);
  for (int i = 0; i < count; ++i) sums[i + 1] = sums[i] + costs[i];

  // best[s][n]: (largest group, sum of squares) of the first n items in s groups; cut[s][n]: where
  // the last group begins.
  using Value = std::pair<double, double>;
  const Value worst(std::numeric_limits<double>::infinity(), 0);
  std::vector<std::vector<Value>> best(stages + 1, std::vector<Value>(count + 1, worst));
  std::vector<std::vector<int>> cut(stages + 1, std::vector<int>(count + 1, 0));
  best[0][0] = {0, 0};
  for (int s = 1; s <= stages; ++s) {
    for (int n = s; n <= count; ++n) {
      for (int begin = s - 1; begin < n; ++begin) {
        const double group = sums[n] - sums[begin];
        const Value& before = best[s - 1][begin];
        const Value value(std::max(before.first, group), before.second + group * group);
        if (value < best[s][n]) {
          best[s][n] = value;
          cut[s][n] = begin;
        }
      }
    }
  }

  std::vector<std::int64_t> sizes(stages);
  for (int s = stages, end = count; s > 0; --s) {
    sizes[s - 1] = end - cut[s][end];
    end = cut[s][end];
  }
  return sizes;
}

}  // namespace cleave::plan
