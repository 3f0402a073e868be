#include "cleave/plan/memory/interval_packing.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "cleave/base/units.h"

namespace cleave::plan {
namespace {

// The sizes that matter most are tried in every order; the rest follow by what they occupy.
constexpr int kPermuted = 4;
// Whether the second and third size grow down from the ceiling instead of up from the floor.
constexpr unsigned kDirections = 4;
// Rounds of pushing down what sticks out, where all that leaves more than a percent.
constexpr std::int64_t kPushes = 50;
using Order = std::vector<int>;

// For each interval, those that are alive together with it, in one array.
struct Conflicts {
  std::vector<std::int64_t> begin;  // [interval], and one past the last
  std::vector<int> others;

  std::span<const int> of(int i) const {
    return std::span(others).subspan(begin[i], begin[i + 1] - begin[i]);
  }
};

Order order_by_start(std::span<const Interval> intervals) {
  Order order(intervals.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int i) { return intervals[i].first; });
  return order;
}

// Calls visit(a, b) for every pair that is alive together, in linear time of their number.
template <class Visit>
void for_each_conflict(std::span<const Interval> intervals, const Order& by_start, Visit visit) {
  std::vector<int> alive;
  for (const int i : by_start) {
    std::erase_if(alive, [&](int j) { return intervals[j].last < intervals[i].first; });
    for (const int j : alive) visit(i, j);
    alive.push_back(i);
  }
}

std::int64_t count_conflicts(std::span<const Interval> intervals) {
  // Two intervals meet unless one ends before the other begins.
  std::vector<int> starts;
  for (const Interval& i : intervals) starts.push_back(i.first);
  std::ranges::sort(starts);
  std::int64_t apart = 0;
  for (const Interval& i : intervals)
    apart += starts.end() - std::ranges::upper_bound(starts, i.last);
  const auto n = static_cast<std::int64_t>(intervals.size());
  return n * (n - 1) / 2 - apart;
}

Conflicts find_conflicts(std::span<const Interval> intervals, const Order& by_start) {
  Conflicts conflicts;
  conflicts.begin.assign(intervals.size() + 1, 0);
  for_each_conflict(intervals, by_start, [&](int a, int b) {
    ++conflicts.begin[a + 1];
    ++conflicts.begin[b + 1];
  });
  std::partial_sum(conflicts.begin.begin(), conflicts.begin.end(), conflicts.begin.begin());
  conflicts.others.resize(conflicts.begin.back());
  std::vector<std::int64_t> next(conflicts.begin.begin(), conflicts.begin.end() - 1);
  for_each_conflict(intervals, by_start, [&](int a, int b) {
    conflicts.others[next[a]++] = b;
    conflicts.others[next[b]++] = a;
  });
  return conflicts;
}

// Which sizes go first, and which hang from the ceiling.
struct Choice {
  std::vector<std::int64_t> sizes;  // first placed first
  unsigned hanging = 0;             // bit r: size number r + 1

  bool hangs(std::size_t rank) const {
    return rank > 0 && rank < kPermuted && ((hanging >> (rank - 1)) & 1) != 0;
  }
};

// Places intervals one after another, size by size, each at the lowest offset where it fits, or, if
// its size hangs, at the highest below the ceiling.
class Placer {
 public:
  explicit Placer(std::span<const Interval> intervals)
      : intervals_(intervals),
        by_start_(order_by_start(intervals)),
        conflicts_(find_conflicts(intervals, by_start_)) {}

  Packing place(const Choice& choice, std::int64_t ceiling) {
    Packing packing{.offsets = std::vector<std::int64_t>(intervals_.size(), -1)};
    for (std::size_t rank = 0; rank < choice.sizes.size(); ++rank)
      for (const int i : by_start_) {
        if (intervals_[i].bytes != choice.sizes[rank]) continue;
        collect_taken(i, packing.offsets);
        const std::int64_t hung = choice.hangs(rank) ? highest_offset(i, ceiling) : -1;
        packing.offsets[i] = hung >= 0 ? hung : lowest_offset(i);
        packing.bytes = std::max(packing.bytes, packing.offsets[i] + intervals_[i].bytes);
      }
    return packing;
  }

  // One by one in the given order, each at the lowest offset where it fits.
  Packing place(const Order& order) {
    Packing packing{.offsets = std::vector<std::int64_t>(intervals_.size(), -1)};
    for (const int i : order) {
      collect_taken(i, packing.offsets);
      packing.offsets[i] = lowest_offset(i);
      packing.bytes = std::max(packing.bytes, packing.offsets[i] + intervals_[i].bytes);
    }
    return packing;
  }

 private:
  void collect_taken(int i, const std::vector<std::int64_t>& offsets) {
    taken_.clear();
    for (const int j : conflicts_.of(i))
      if (offsets[j] >= 0) taken_.emplace_back(offsets[j], offsets[j] + intervals_[j].bytes);
  }

  std::int64_t lowest_offset(int i) {
    std::ranges::sort(taken_);
    std::int64_t offset = 0;
    for (const auto& [begin, end] : taken_) {
      if (begin - offset >= intervals_[i].bytes) break;
      offset = std::max(offset, end);
    }
    return offset;
  }

  // -1: there is no room below the ceiling. Goes down by ends: what is taken may overlap itself,
  // and then the order of ends is not that of beginnings.
  std::int64_t highest_offset(int i, std::int64_t ceiling) {
    std::ranges::sort(taken_, std::greater<>(), &std::pair<std::int64_t, std::int64_t>::second);
    std::int64_t top = ceiling;
    for (const auto& [begin, end] : taken_) {
      if (top - end >= intervals_[i].bytes) break;
      top = std::min(top, begin);
    }
    return std::max<std::int64_t>(-1, top - intervals_[i].bytes);
  }

  std::span<const Interval> intervals_;
  Order by_start_;
  Conflicts conflicts_;
  std::vector<std::pair<std::int64_t, std::int64_t>> taken_;
};

// Allocates and frees in order of time, each block in the smallest hole that holds it. No table of
// conflicts, so it serves lists of any length.
Packing best_fit_in_time(std::span<const Interval> intervals, const Order& by_start) {
  Packing packing{.offsets = std::vector<std::int64_t>(intervals.size(), -1)};
  std::map<std::int64_t, std::int64_t> holes;  // offset -> bytes; the rest above `top` is free
  std::int64_t top = 0;
  const auto release = [&](std::int64_t offset, std::int64_t bytes) {
    auto next = holes.lower_bound(offset);
    if (next != holes.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = holes.erase(next);
    }
    if (next != holes.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        offset = before->first;
        bytes += before->second;
        holes.erase(before);
      }
    }
    if (offset + bytes == top)
      top = offset;
    else
      holes[offset] = bytes;
  };

  std::multimap<int, int> ends;  // last -> interval
  for (const int i : by_start) {
    while (!ends.empty() && ends.begin()->first < intervals[i].first) {
      const int j = ends.begin()->second;
      release(packing.offsets[j], intervals[j].bytes);
      ends.erase(ends.begin());
    }
    const std::int64_t bytes = intervals[i].bytes;
    auto best = holes.end();
    for (auto hole = holes.begin(); hole != holes.end(); ++hole)
      if (hole->second >= bytes && (best == holes.end() || hole->second < best->second))
        best = hole;
    if (best != holes.end()) {
      const auto [offset, size] = *best;
      packing.offsets[i] = offset;
      holes.erase(best);
      if (size > bytes) holes[offset + bytes] = size - bytes;
    } else {
      packing.offsets[i] = top;
      top += bytes;
    }
    packing.bytes = std::max(packing.bytes, packing.offsets[i] + bytes);
    ends.emplace(intervals[i].last, i);
  }
  return packing;
}

// The sizes, by the bytes times instructions that they occupy together.
std::vector<std::int64_t> sizes_by_area(std::span<const Interval> intervals) {
  std::map<std::int64_t, double> area;
  for (const Interval& i : intervals)
    area[i.bytes] += static_cast<double>(i.bytes) * (i.last - i.first + 1);
  std::vector<std::int64_t> sizes;
  for (const auto& [bytes, occupied] : area) sizes.push_back(bytes);
  std::ranges::stable_sort(sizes, std::greater<>(), [&](std::int64_t b) { return area[b]; });
  return sizes;
}

// Tries choices until one needs no more than `enough` or `attempts` are used up.
Packing best_by_size(std::span<const Interval> intervals, std::int64_t enough,
                     std::int64_t attempts) {
  const std::int64_t ceiling = lower_bound(intervals);
  const std::vector<std::int64_t> sizes = sizes_by_area(intervals);
  Placer placer(intervals);
  std::vector<int> permutation(std::min<std::size_t>(sizes.size(), kPermuted));
  std::iota(permutation.begin(), permutation.end(), 0);
  Packing best{.offsets = {}, .bytes = std::numeric_limits<std::int64_t>::max()};
  do {
    Choice choice{.sizes = sizes};
    for (std::size_t k = 0; k < permutation.size(); ++k) choice.sizes[k] = sizes[permutation[k]];
    for (choice.hanging = 0; choice.hanging < kDirections; ++choice.hanging) {
      if (attempts-- <= 0 || best.bytes <= enough) return best;
      Packing packing = placer.place(choice, ceiling);
      if (packing.bytes < best.bytes) best = std::move(packing);
    }
  } while (std::ranges::next_permutation(permutation).found);
  return best;
}

// Large ones first; then, again and again, what sticks out goes before all others.
Packing best_by_pushing_down(std::span<const Interval> intervals, std::int64_t enough,
                             std::int64_t attempts) {
  Placer placer(intervals);
  Order order = order_by_start(intervals);
  std::ranges::stable_sort(order, std::greater<>(), [&](int i) { return intervals[i].bytes; });
  Packing best{.offsets = {}, .bytes = std::numeric_limits<std::int64_t>::max()};
  while (attempts-- > 0 && best.bytes > enough) {
    Packing packing = placer.place(order);
    std::ranges::stable_partition(
        order, [&](int i) { return packing.offsets[i] + intervals[i].bytes == packing.bytes; });
    if (packing.bytes < best.bytes) best = std::move(packing);
  }
  return best;
}

}  // namespace

std::int64_t lower_bound(std::span<const Interval> intervals) {
  std::vector<std::pair<std::int32_t, std::int64_t>> changes;
  for (const Interval& i : intervals) {
    changes.emplace_back(i.first, aligned(i.bytes));
    changes.emplace_back(i.last + 1, -aligned(i.bytes));
  }
  std::ranges::sort(changes);  // what ends comes before what begins at the same time
  std::int64_t live = 0;
  std::int64_t peak = 0;
  for (const auto& [time, delta] : changes) peak = std::max(peak, live += delta);
  return peak;
}

Packing pack_intervals(std::span<const Interval> unaligned, std::int64_t effort) {
  std::vector<Interval> intervals(unaligned.begin(), unaligned.end());
  for (Interval& i : intervals) i.bytes = aligned(i.bytes);
  const std::int64_t bound = lower_bound(intervals);
  const Order order = order_by_start(intervals);
  Packing in_time = best_fit_in_time(intervals, order);
  const std::int64_t enough = bound + bound / 512;
  const std::int64_t pairs = 2 * count_conflicts(intervals);
  if (in_time.bytes <= enough || pairs / 10 > effort) return in_time;

  const std::int64_t attempts = std::max<std::int64_t>(1, effort / pairs);
  Packing best = best_by_size(intervals, enough, attempts);
  if (best.bytes > bound + bound / 100) {
    Packing pushed = best_by_pushing_down(intervals, enough, std::min(attempts, kPushes));
    if (pushed.bytes < best.bytes) best = std::move(pushed);
  }
  return best.bytes < in_time.bytes ? best : in_time;
}

}  // namespace cleave::plan
