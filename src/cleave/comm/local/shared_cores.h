#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cleave/comm/pinning.h"

namespace cleave::comm {

/// Cores that devices take turns on, where there are more devices than cores. A device keeps its
/// core until it waits for another device; whoever has queued for the longest gets it then.
///
/// Left to itself, the operating system lets cores idle while devices queue for others: it is slow
/// to move a thread that has just run. Here as many threads run as there are cores, each on its
/// own.
class SharedCores {
 public:
  using Clock = std::chrono::steady_clock;

  /// What a device waits for: that `events` is something else than `seen`.
  struct News {
    const std::atomic<std::uint64_t>& events;
    std::uint64_t seen = 0;
    Clock::time_point deadline = Clock::time_point::max();
  };

  /// An empty place is a core that the operating system chooses.
  SharedCores(int devices, std::vector<HardwareThreads> places);

  /// The calling thread is `device` from now on; it waits for its first core.
  void enter(int device);

  /// `device` has ended.
  void leave(int device);

  /// Goes to the end of the queue, if there is one.
  void give_way(int device);

  /// Without news, gives the core away until wake() and until there is one again. Past the deadline
  /// it goes on without: somebody who hangs may have it.
  void sleep(int device, const News& news);

  /// Waits for a core if sleep() went on without, until the deadline.
  void regain(int device, Clock::time_point deadline);

  /// There is news for `device`. From any thread.
  void wake(int device);

 private:
  static constexpr int kNone = -1;

  struct Device {
    int thread = 0;  ///< as the operating system counts them
    int place = kNone;
    int last_place = kNone;
    bool asleep = false;
    std::condition_variable turn;
  };

  // Under the lock; the device that has got a core, or null, is to be told without it.
  Device* claim(Device& device);
  Device* give_away(Device& device);
  Device* take(Device& device, int place);
  void await_core(Device& self, std::unique_lock<std::mutex>& lock, Clock::time_point deadline);

  static void tell(Device* device) {
    if (device != nullptr) device->turn.notify_one();
  }

  std::vector<HardwareThreads> places_;
  std::mutex mutex_;  // guards what follows
  std::vector<Device> devices_;
  std::vector<int> free_;       ///< places
  std::vector<Device*> queue_;  ///< the longest there first
};

}  // namespace cleave::comm
