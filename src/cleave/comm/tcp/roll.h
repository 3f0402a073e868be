#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "cleave/comm/tcp/seats.h"
#include "cleave/comm/tcp/server.h"

namespace cleave::comm {

/// What other threads than the server's may know of the devices: a copy as of the last change, for
/// which they can wait. Only .cpp files of comm/tcp include this.
class Roll {
 public:
  void update(const Seats& seats);
  void add(const MemberEvent& event);
  std::vector<MemberEvent> take_events();

  /// Waits until no device is at work and the server's own and `least` in all are ready. Empty once
  /// `gives_up` says so; `on_late` is called once if it takes longer than `patience`.
  std::vector<Candidate> await_ready(std::size_t least, Clock::duration patience,
                                     const std::function<bool()>& gives_up,
                                     const std::function<void()>& on_late);

  /// Waits until all but the server's own are gone.
  void await_departure(Clock::duration patience);

 private:
  std::mutex mutex_;  // guards all that follows
  std::condition_variable news_;
  std::vector<Candidate> ready_;
  std::size_t running_ = 0;
  std::size_t others_ = 0;
  std::vector<MemberEvent> events_;
};

}  // namespace cleave::comm
