#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace cleave::fuzz {

/// The last values that passed a check which depends on nothing but the value. Many inputs mean the
/// same, and to check it again finds nothing.
template <class T>
class Checked {
 public:
  /// Calls `check(value)`, which aborts if it fails, unless an equal value passed lately.
  template <class Check>
  void check_once(T value, Check check) {
    if (std::ranges::find(passed_, value) != passed_.end()) return;
    check(value);
    if (passed_.size() < kMost) {
      passed_.push_back(std::move(value));
    } else {
      passed_[oldest_++ % kMost] = std::move(value);
    }
  }

 private:
  static constexpr std::size_t kMost = 64;
  std::vector<T> passed_;
  std::size_t oldest_ = 0;
};

}  // namespace cleave::fuzz
