#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cleave/base/collective_kind.h"

namespace cleave::comm {

using Clock = std::chrono::steady_clock;

/// A collective that was on its way, as one device saw it.
struct LoggedCollective {
  CollectiveKind kind = CollectiveKind::AllReduce;
  Clock::time_point begin = {};       ///< when it was posted
  Clock::time_point end = {};         ///< when it was complete
  Clock::duration spent_before = {};  ///< in stays, from clear() to `begin`
  Clock::duration spent = {};         ///< in stays, from `begin` to `end`
  std::int64_t bytes = 0;             ///< sent by this device
};

/// The collectives of one device, and how long its thread was at them instead of computing.
class ExchangeLog {
 public:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  /// While one lives the thread posts, moves, adds up or awaits messages. They nest.
  class Stay {
   public:
    explicit Stay(ExchangeLog& log) : log_(log) {
      if (log_.stays_++ == 0) log_.entered_ = Clock::now();
    }
    ~Stay() {
      if (--log_.stays_ == 0) log_.spent_ += Clock::now() - log_.entered_;
    }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;

   private:
    ExchangeLog& log_;
  };

  /// Makes room. What finds none is not logged: logging allocates nothing.
  void reserve(std::size_t exchanges) { exchanges_.reserve(exchanges); }

  /// Forgets everything; nothing may be on its way.
  void clear() {
    exchanges_.clear();
    spent_ = {};
  }

  /// During a stay. The number of the entry, or kNone.
  std::size_t begin(CollectiveKind kind);
  void end(std::size_t entry, std::int64_t bytes);

  /// In stays that have ended, since the log was cleared.
  Clock::duration spent() const { return spent_; }

  /// In the order in which they were posted.
  std::span<const LoggedCollective> exchanges() const { return exchanges_; }

 private:
  std::vector<LoggedCollective> exchanges_;
  int stays_ = 0;
  Clock::time_point entered_;
  Clock::duration spent_ = {};
};

}  // namespace cleave::comm
