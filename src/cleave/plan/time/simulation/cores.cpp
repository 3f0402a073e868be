#include "cleave/plan/time/simulation/cores.h"

#include <algorithm>
#include <utility>

namespace cleave::plan::simulation {

void Cores::compute(int device, double time, double length) {
  const bool goes_on = ended_ && ended_->device == device;
  if (goes_on) ended_.reset();
  const int taken = static_cast<int>(running_.size()) + (ended_ ? 1 : 0);
  if (goes_on || taken < count_)
    running_.push_back({.device = device, .begin = time, .end = time + length});
  else
    queue_.push_back({.device = device, .length = length});
}

double Cores::next() const {
  return running_.empty() ? kNever : std::ranges::min(running_, {}, &Computation::end).end;
}

Cores::Computation Cores::advance() {
  const auto first = std::ranges::min_element(running_, {}, &Computation::end);
  ended_ = *first;
  running_.erase(first);
  return *ended_;
}

void Cores::release() {
  if (!ended_) return;
  const double now = std::exchange(ended_, std::nullopt)->end;
  if (queue_.empty()) return;
  const Queued next = queue_.front();
  queue_.pop_front();
  running_.push_back({.device = next.device, .begin = now, .end = now + next.length});
}

}  // namespace cleave::plan::simulation
