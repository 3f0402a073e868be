#include "cleave/plan/interval_packing.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "cleave/base/philox.h"
#include "cleave/base/units.h"

namespace cleave::plan {
namespace {

// Pairs of intervals looked at, over all attempts on one device; about a nanosecond or two each.
constexpr std::int64_t kEffort = 16'000'000;
constexpr int kRepairs = 300;

using Order = std::vector<int>;

// For each interval, those that are alive together with it, in one array.
struct Conflicts {
  std::vector<std::int64_t> begin;  // [interval], and one past the last
  std::vector<int> others;

  std::span<const int> of(int i) const {
    return std::span(others).subspan(begin[i], begin[i + 1] - begin[i]);
  }
};

Order by_start(std::span<const Interval> intervals) {
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

// Places intervals one after another, each at the lowest offset where it fits.
class LowestFit {
 public:
  LowestFit(std::span<const Interval> intervals, const Conflicts& conflicts)
      : intervals_(intervals), conflicts_(conflicts) {}

  Packing place(const Order& order) {
    Packing packing{.offsets = std::vector<std::int64_t>(intervals_.size(), -1)};
    for (const int i : order) {
      packing.offsets[i] = lowest_offset(i, packing.offsets);
      packing.bytes = std::max(packing.bytes, packing.offsets[i] + intervals_[i].bytes);
    }
    return packing;
  }

 private:
  std::int64_t lowest_offset(int i, const std::vector<std::int64_t>& offsets) {
    taken_.clear();
    for (const int j : conflicts_.of(i))
      if (offsets[j] >= 0) taken_.emplace_back(offsets[j], offsets[j] + intervals_[j].bytes);
    std::ranges::sort(taken_);
    std::int64_t offset = 0;
    for (const auto& [begin, end] : taken_) {
      if (begin - offset >= intervals_[i].bytes) break;
      offset = std::max(offset, end);
    }
    return offset;
  }

  std::span<const Interval> intervals_;
  const Conflicts& conflicts_;
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

std::vector<Order> starting_orders(std::span<const Interval> intervals, const Order& by_start) {
  const auto life = [&](int i) { return intervals[i].last - intervals[i].first + 1.0; };
  const auto bytes = [&](int i) { return static_cast<double>(intervals[i].bytes); };
  std::vector<Order> orders(4, by_start);
  std::ranges::stable_sort(orders[0], std::greater<>(), [&](int i) { return bytes(i) * life(i); });
  std::ranges::stable_sort(orders[1], std::greater<>(), [&](int i) { return bytes(i); });
  std::ranges::stable_sort(orders[2], std::greater<>(), [&](int i) { return life(i); });
  return orders;
}

// What reaches the peak was placed too late: move one of those ahead, and keep the order if the
// peak does not rise.
void repair(LowestFit& fit, std::span<const Interval> intervals, Order order, std::int64_t enough,
            int rounds, Packing& best) {
  const Philox random(0, "interval packing");
  Packing current = fit.place(order);
  Order high;
  for (int round = 0; round < rounds && best.bytes > enough; ++round) {
    high.clear();
    for (int at = 0; at < std::ssize(order); ++at)
      if (current.offsets[order[at]] + intervals[order[at]].bytes == current.bytes)
        high.push_back(at);
    const auto from = high[random.below(high.size(), 2 * round)];
    if (from == 0) continue;
    const auto to = static_cast<int>(random.below(from, 2 * round + 1));
    std::rotate(order.begin() + to, order.begin() + from, order.begin() + from + 1);
    Packing next = fit.place(order);
    if (next.bytes > current.bytes) {
      std::rotate(order.begin() + to, order.begin() + to + 1, order.begin() + from + 1);
      continue;
    }
    current = std::move(next);
    if (current.bytes < best.bytes) best = current;
  }
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

Packing pack_intervals(std::span<const Interval> unaligned) {
  std::vector<Interval> intervals(unaligned.begin(), unaligned.end());
  for (Interval& i : intervals) i.bytes = aligned(i.bytes);

  const std::int64_t bound = lower_bound(intervals);
  const std::int64_t enough = bound + bound / 512;
  const Order order = by_start(intervals);
  Packing best = best_fit_in_time(intervals, order);
  const std::int64_t pairs = count_conflicts(intervals);
  std::int64_t attempts = pairs > 0 ? kEffort / pairs : 0;
  if (best.bytes <= enough || attempts < 8) return best;

  const Conflicts conflicts = find_conflicts(intervals, order);
  LowestFit fit(intervals, conflicts);
  const std::vector<Order> orders = starting_orders(intervals, order);
  for (const Order& candidate : orders) {
    Packing packing = fit.place(candidate);
    if (packing.bytes < best.bytes) best = std::move(packing);
    if (best.bytes <= enough) return best;
  }
  attempts = std::min<std::int64_t>(attempts / std::ssize(orders) - 1, kRepairs);
  for (const Order& candidate : orders)
    repair(fit, intervals, candidate, enough, static_cast<int>(attempts), best);
  return best;
}

}  // namespace cleave::plan
