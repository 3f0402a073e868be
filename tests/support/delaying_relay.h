#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <thread>
#include <vector>

#include "cleave/comm/tcp/listener.h"
#include "cleave/comm/tcp/stream.h"

namespace cleave::testing {

/// A stretch of network that passes bytes on to `target` after `delay`, in either direction, as
/// many at a time as there are.
class DelayingRelay {
 public:
  DelayingRelay(comm::Address target, std::chrono::microseconds delay);
  ~DelayingRelay();

  comm::Address address() const { return {"127.0.0.1", listener_.port()}; }

 private:
  using Clock = std::chrono::steady_clock;

  /// Bytes on their way, and when they arrive.
  struct Parcel {
    Clock::time_point due;
    std::vector<std::byte> bytes;
    std::size_t written = 0;
  };
  struct Way {
    comm::Stream near, far;
    std::deque<Parcel> there = {}, back = {};
  };
  void run();
  bool pass_on(Way& way) const;
  void carry(comm::Stream& from, comm::Stream& to, std::deque<Parcel>& parcels) const;

  comm::Address target_;
  std::chrono::microseconds delay_;
  comm::Listener listener_{{"127.0.0.1", 0}};
  std::atomic<bool> stop_ = false;
  std::vector<Way> ways_;
  std::thread thread_;
};

}  // namespace cleave::testing
