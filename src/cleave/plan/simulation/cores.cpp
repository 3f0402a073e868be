#include "cleave/plan/simulation/cores.h"

#include <algorithm>

namespace cleave::plan::simulation {

void Cores::compute(int device, double length) {
  if (ended_ && ended_->device == device) {
    running_.push_back({.device = device, .left = length, .begin = now_, .used = ended_->used});
    ended_.reset();
    return;
  }
  ready_.push_back({.device = device, .left = length});
  fill();
}

void Cores::fill() {
  const auto taken = [&] { return static_cast<int>(running_.size()) + (ended_ ? 1 : 0); };
  while (!ready_.empty() && taken() < count_) {
    running_.push_back(ready_.front());
    ready_.pop_front();
    if (running_.back().begin == kNotYet) running_.back().begin = now_;
  }
}

/// Until the end of the computation, or of the slice.
double Cores::horizon(const Computing& each) const {
  const double slice = ready_.empty() ? each.left : slice_ - each.used;
  return std::max(0.0, std::min(each.left, slice));
}

std::vector<Cores::Computing>::const_iterator Cores::first() const {
  return std::ranges::min_element(running_, {}, [&](const Computing& c) { return horizon(c); });
}

double Cores::next() const {
  return running_.empty() ? kNever : now_ + horizon(*first());
}

void Cores::run_until(double time) {
  for (Computing& each : running_) {
    each.left -= time - now_;
    each.used += time - now_;
  }
  now_ = time;
}

std::optional<Cores::Ended> Cores::advance() {
  const auto at = first();
  const bool ends = at->left <= horizon(*at);
  const auto index = at - running_.begin();
  run_until(next());
  Computing each = running_[index];
  running_.erase(running_.begin() + index);
  if (ends) {
    ended_ = each;
    return Ended{.device = each.device, .begin = each.begin, .end = now_};
  }
  each.used = 0;
  ready_.push_back(each);
  fill();
  return std::nullopt;
}

void Cores::release() {
  ended_.reset();
  fill();
}

}  // namespace cleave::plan::simulation
