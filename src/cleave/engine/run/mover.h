#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "cleave/tensor/memory.h"

namespace cleave::engine {

/// Copies between a device's memory and its outside, beside its compute: a thread of its own, one
/// copy at a time, in the order of posting. Posting allocates nothing.
class Mover {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Way : std::uint8_t { Out, In };

  /// The bytes of one tensor, inside and outside; nobody else may touch them until it is done.
  struct Copy {
    std::byte* inside = nullptr;
    std::byte* outside = nullptr;
    std::int64_t bytes = 0;
  };
  struct Times {
    Clock::time_point begin;
    Clock::time_point end;
  };

  /// At most `most` posts are ever in flight. `memory`, the device's, and `outside` must outlive
  /// this.
  Mover(Memory& memory, Memory& outside, std::size_t most);
  ~Mover();
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  /// Begins to copy as soon as what was posted before is done; a number to wait for. `copies` must
  /// stay until then.
  std::uint64_t post(Way way, std::span<const Copy> copies);

  /// Whether wait() would return, or throw, at once.
  bool done(std::uint64_t number);

  /// Throws what the copy threw, as all waits after it do.
  Times wait(std::uint64_t number);

  /// Returns when nothing is in flight, whatever came of it.
  void drain() noexcept;

 private:
  struct Post {
    Way way = Way::Out;
    std::span<const Copy> copies;
    Times times;
  };

  void work();
  void carry_out(const Post& post);
  void move(Way way, const Copy& copy);

  Memory& memory_;
  Memory& outside_;
  std::vector<std::byte> bounce_;  ///< where neither memory is the host's
  std::vector<Post> posts_;        ///< a ring: number modulo its size
  std::uint64_t posted_ = 0;
  std::uint64_t done_ = 0;
  bool ends_ = false;
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace cleave::engine
