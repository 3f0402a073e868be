#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace cleave::app {

/// A bar on standard error, drawn over itself, where that is a terminal; nothing elsewhere.
class ByteProgress {
 public:
  /// `total` is in any unit: the bar shows a share of it.
  ByteProgress(std::string what, std::int64_t total);
  ~ByteProgress();
  ByteProgress(const ByteProgress&) = delete;
  ByteProgress& operator=(const ByteProgress&) = delete;

  void advance(std::int64_t amount) { show(done_ + amount); }
  void show(std::int64_t done);

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  bool terminal_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point shown_ = begin_;
};

}  // namespace cleave::app
