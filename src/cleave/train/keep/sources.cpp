#include "cleave/train/keep/sources.h"

#include <limits>

namespace cleave::train {

StateSources::StateSources(const std::vector<std::vector<Stripe>>& holdings) {
  for (const std::vector<Stripe>& stripes : holdings) {
    auto& tensors = members_.emplace_back();
    for (const Stripe& stripe : stripes) {
      for_each_run(stripe, [&](const TensorRun& run) {
        tensors[{run.part, run.parameter}].push_back({run.first, run.first + run.length, run.at});
      });
    }
    for (auto& [tensor, intervals] : tensors) {
      std::ranges::stable_sort(intervals, {}, &Interval::first);
      std::vector<Interval> apart;
      for (Interval next : intervals) {
        const std::int64_t known = apart.empty() ? 0 : apart.back().end;
        if (next.end <= known) continue;
        const std::int64_t skipped = std::max<std::int64_t>(0, known - next.first);
        apart.push_back({next.first + skipped, next.end, next.at + skipped});
      }
      intervals = std::move(apart);
    }
  }
}

const StateSources::Interval* StateSources::covering(const std::vector<Interval>& intervals,
                                                     std::int64_t first) {
  const auto after = std::ranges::upper_bound(intervals, first, {}, &Interval::first);
  if (after == intervals.begin()) return nullptr;
  const Interval& before = *(after - 1);
  return first < before.end ? &before : nullptr;
}

std::pair<std::size_t, const StateSources::Interval*> StateSources::next_holder(
    const TensorRun& run, std::int64_t first, std::size_t taker) const {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const std::size_t holder = (taker + i) % members_.size();
    const auto found = members_[holder].find({run.part, run.parameter});
    if (found == members_[holder].end()) continue;
    if (const Interval* interval = covering(found->second, first)) return {holder, interval};
  }
  CLEAVE_CHECK(false, "nobody has element ", first, " of parameter ", run.parameter);
  return {};
}

std::int64_t StateSources::next_own(const TensorRun& run, std::int64_t first,
                                    std::size_t taker) const {
  const auto found = members_[taker].find({run.part, run.parameter});
  if (found == members_[taker].end()) return std::numeric_limits<std::int64_t>::max();
  const auto after = std::ranges::upper_bound(found->second, first, {}, &Interval::first);
  return after == found->second.end() ? std::numeric_limits<std::int64_t>::max() : after->first;
}

bool StateSources::has(
    const std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t>& sizes) const {
  for (const auto& [tensor, elements] : sizes) {
    std::vector<Interval> all;
    for (const auto& member : members_) {
      if (const auto found = member.find(tensor); found != member.end())
        all.insert(all.end(), found->second.begin(), found->second.end());
    }
    std::ranges::sort(all, {}, &Interval::first);
    std::int64_t known = 0;
    for (const Interval& next : all) {
      if (next.first > known) return false;
      known = std::max(known, next.end);
    }
    if (known < elements) return false;
  }
  return true;
}

}  // namespace cleave::train
