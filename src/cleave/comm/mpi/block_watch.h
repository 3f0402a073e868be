#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace cleave::comm {

/// How long MPI may block, and what happens if it blocks for longer: a rank that is stopped before
/// it has said anything keeps the others inside of MPI, where none of them can look up. Nothing
/// happens if `late` is empty.
struct MpiPatience {
  std::chrono::nanoseconds patience = {};
  std::function<void()> late = {};  ///< called on a thread of its own; does not return
};

/// Watches over what MPI does while this lives.
class BlockWatch {
 public:
  explicit BlockWatch(const MpiPatience& patience) {
    if (patience.late) thread_ = std::thread([this, &patience] { watch(patience); });
  }
  ~BlockWatch() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    news_.notify_one();
    thread_.join();
  }
  BlockWatch(const BlockWatch&) = delete;
  BlockWatch& operator=(const BlockWatch&) = delete;

 private:
  // In short turns, so that the time for which the whole job is suspended does not count.
  void watch(const MpiPatience& patience) {
    constexpr std::chrono::milliseconds kTurn{100};
    std::unique_lock lock(mutex_);
    for (std::chrono::nanoseconds waited{}; waited < patience.patience; waited += kTurn)
      if (news_.wait_for(lock, kTurn, [&] { return done_; })) return;
    patience.late();
  }

  std::mutex mutex_;
  std::condition_variable news_;
  bool done_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace cleave::comm
