#pragma once

#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "cleave/plan/time/trace.h"

namespace cleave::plan::simulation {

inline constexpr double kNotYet = -1;
inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// Virtual time: which device is to go on when, and what each has done so far.
class Timeline {
 public:
  using Event = std::pair<double, int>;  ///< (time, device); ties by device: runs repeat exactly

  void wake(int device, double time) { events_.push({time, device}); }

  /// When the next device is to go on; kNever if none is.
  double next() const { return events_.empty() ? kNever : events_.top().first; }

  Event pop() {
    const Event event = events_.top();
    events_.pop();
    return event;
  }

  void add(int device, SpanKind kind, double begin, double end,
           const schedule::Instruction& instruction) {
    trace.spans.push_back(
        {.device = device, .kind = kind, .begin = begin, .end = end, .instruction = instruction});
  }

  Trace trace;

 private:
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace cleave::plan::simulation
