#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/train/keep/stripe.h"

namespace cleave::train {

/// Who has which elements of a state.
class StateSources {
 public:
  /// [member] what it has; a member may have the same twice.
  explicit StateSources(const std::vector<std::vector<Stripe>>& holdings);

  /// Whether all elements of all tensors exist, by (part, parameter).
  bool has(const std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t>& sizes) const;

  /// Calls visit(holder, first, length, at) on pieces that make up `run`, each with one who has it:
  /// `taker` itself if it does, else the next after it who does.
  template <class Visit>
  void find(const TensorRun& run, std::size_t taker, Visit&& visit) const {
    const std::int64_t end = run.first + run.length;
    for (std::int64_t first = run.first; first < end;) {
      const auto [holder, interval] = next_holder(run, first, taker);
      const std::int64_t known = holder == taker ? end : next_own(run, first, taker);
      const std::int64_t length = std::min({end, interval->end, known}) - first;
      visit(holder, first, length, interval->at + first - interval->first);
      first += length;
    }
  }

 private:
  using Tensor = std::pair<std::int32_t, std::int32_t>;

  /// Neighbouring elements that a member has.
  struct Interval {
    std::int64_t first = 0;
    std::int64_t end = 0;
    std::int64_t at = 0;
  };

  /// The one that has element `first`; null: none.
  static const Interval* covering(const std::vector<Interval>& intervals, std::int64_t first);
  std::pair<std::size_t, const Interval*> next_holder(const TensorRun& run, std::int64_t first,
                                                      std::size_t taker) const;
  /// The first element after `first` that `taker` has itself.
  std::int64_t next_own(const TensorRun& run, std::int64_t first, std::size_t taker) const;

  std::vector<std::map<Tensor, std::vector<Interval>>> members_;  ///< sorted, without overlaps
};

}  // namespace cleave::train
