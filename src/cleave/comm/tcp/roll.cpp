#include "cleave/comm/tcp/roll.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

namespace cleave::comm {
namespace {

constexpr std::chrono::milliseconds kRollLook{100};

}  // namespace

void Roll::update(const Seats& seats) {
  const std::lock_guard lock(mutex_);
  ready_.clear();
  running_ = others_ = 0;
  for (const Seat& seat : seats.all()) {
    if (seat.presence == Seat::Presence::Ready)
      ready_.push_back(
          {.seat = seat.number, .name = seat.name, .owner = seat.owner, .memory = seat.memory});
    if (seat.presence == Seat::Presence::Running) ++running_;
    if (seat.is_here() && !seat.is_own()) ++others_;
  }
  // The server's own come first, from seat 0 down.
  std::ranges::sort(ready_, {}, [](const Candidate& candidate) {
    return std::pair(candidate.seat > 0, std::abs(candidate.seat));
  });
  news_.notify_all();
}

void Roll::add(const MemberEvent& event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
}

std::vector<MemberEvent> Roll::take_events() {
  const std::lock_guard lock(mutex_);
  return std::exchange(events_, {});
}

std::vector<Candidate> Roll::await_ready(std::size_t least, Clock::duration patience,
                                         const std::function<bool()>& gives_up,
                                         const std::function<void()>& on_late) {
  Clock::duration waited{};
  bool late = false;
  std::unique_lock lock(mutex_);
  for (;;) {
    const bool own = !ready_.empty() && ready_.front().seat == 0;
    if (running_ == 0 && own && ready_.size() >= least) return ready_;
    const Clock::time_point before = Clock::now();
    news_.wait_for(lock, kRollLook);
    if (gives_up && gives_up()) return {};
    // Time in which this process was stopped itself does not count.
    if (running_ > 0) waited += std::min<Clock::duration>(Clock::now() - before, 2 * kRollLook);
    if (late || waited < patience) continue;
    late = true;
    on_late();
  }
}

void Roll::await_departure(Clock::duration patience) {
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, patience, [&] { return others_ == 0; });
}

}  // namespace cleave::comm
