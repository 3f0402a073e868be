#pragma once

#include <utility>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/schedule/verifier.h"

namespace cleave::schedule::checks {

/// The violations found so far; keeps the first kMostViolations.
class Findings {
 public:
  /// `index` -1: something that should be there is not. `parts` form the sentence.
  template <class... Parts>
  void add(int device, int index, const Parts&... parts) {
    if (!full()) list_.push_back({device, index, cleave::detail::concat(parts...)});
  }

  bool any() const { return !list_.empty(); }
  bool full() const { return list_.size() >= kMostViolations; }
  std::vector<Violation> take() { return std::move(list_); }

 private:
  std::vector<Violation> list_;
};

}  // namespace cleave::schedule::checks
