#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cleave::plan {

/// A block of memory that is needed from instruction `first` up to and including `last`.
struct Interval {
  std::int32_t first = 0;
  std::int32_t last = 0;
  std::int64_t bytes = 0;

  friend bool operator==(const Interval&, const Interval&) = default;
};

struct Packing {
  std::vector<std::int64_t> offsets;  ///< of each interval, on alignment borders
  std::int64_t bytes = 0;             ///< the highest end
};

/// Gives every interval an offset so that no two that are alive together overlap, in little more
/// than `lower_bound` bytes. `effort` bounds the search, in pairs of intervals looked at (some
/// nanoseconds each); the same effort gives the same packing everywhere.
Packing pack_intervals(std::span<const Interval> intervals, std::int64_t effort = 20'000'000);

/// The largest sum of aligned bytes alive at one instruction: no packing needs less.
std::int64_t lower_bound(std::span<const Interval> intervals);

}  // namespace cleave::plan
