#include "cleave/plan/order/evaluator.h"

#include <algorithm>
#include <numeric>

namespace cleave::plan::ordering {
namespace {

constexpr double kCostWeight = 0.05;
constexpr double kEndWeight = 0.01;
constexpr double kExcessWeight = 4;

}  // namespace

Evaluator::Evaluator(const Problem& problem)
    : problem_(problem),
      readers_(problem.lanes()),
      work_(problem.devices, 0.0),
      end_(static_cast<std::size_t>(problem.lanes()) * problem.microbatches),
      bound_by_(end_.size()),
      at_(end_.size()),
      done_(problem.lanes()),
      next_(problem.devices),
      first_start_(problem.devices),
      free_at_(problem.devices),
      left_(problem.devices),
      waits_for_(problem.devices) {
  for (int lane = 0; lane < problem.lanes(); ++lane) {
    const int device = problem.device_of_lane(lane);
    work_[device] += problem.duration[lane] * problem.microbatches;
    for (const Need& need : problem.needs[lane]) readers_[need.lane].push_back(device);
  }
}

bool Evaluator::run(const Orders& orders, double worst) {
  std::ranges::fill(done_, 0);
  std::ranges::fill(next_, 0);
  std::ranges::fill(free_at_, 0.0);
  std::ranges::fill(waits_for_, -1);
  left_ = work_;
  runnable_.resize(problem_.devices);
  std::iota(runnable_.rbegin(), runnable_.rend(), 0);
  while (!runnable_.empty()) {
    const int device = runnable_.back();
    runnable_.pop_back();
    if (!advance(device, orders[device], worst)) return false;
  }
  for (int d = 0; d < problem_.devices; ++d)
    if (next_[d] < std::ssize(orders[d])) return false;
  finish();
  return score_ <= worst;
}

// Runs a device until it waits for a lane that has not got far enough.
bool Evaluator::advance(int device, const std::vector<int>& order, double worst) {
  const int microbatches = problem_.microbatches;
  double free_at = free_at_[device];
  double left = left_[device];
  int at = next_[device];
  const int size = static_cast<int>(order.size());
  for (; at < size; ++at) {
    const int lane = order[at];
    const int m = done_[lane];
    double start = free_at;
    int bound_by = -1;
    for (const Need& need : problem_.needs[lane]) {
      const int of = m - need.behind;
      if (of < 0) continue;
      if (done_[need.lane] <= of) {
        waits_for_[device] = need.lane;
        free_at_[device] = free_at;
        left_[device] = left;
        next_[device] = at;
        return true;
      }
      const double ready = end_[need.lane * microbatches + of] + need.delay;
      if (ready > start) {
        start = ready;
        bound_by = need.lane * microbatches + of;
      }
    }
    if (at == 0) first_start_[device] = start;
    // The device ends no sooner than start + left, and spans no less than that from its start.
    if (start + left + kCostWeight * (start + left - first_start_[device]) > worst) return false;
    const int op = lane * microbatches + m;
    free_at = start + problem_.duration[lane];
    left -= problem_.duration[lane];
    end_[op] = free_at;
    bound_by_[op] = bound_by;
    at_[op] = at;
    ++done_[lane];
    for (const int reader : readers_[lane])
      if (waits_for_[reader] == lane) {
        waits_for_[reader] = -1;
        runnable_.push_back(reader);
      }
  }
  free_at_[device] = free_at;
  next_[device] = at;
  return true;
}

void Evaluator::finish() {
  makespan_ = cost_ = 0;
  double ends = 0;
  for (int d = 0; d < problem_.devices; ++d) {
    if (next_[d] == 0) continue;
    makespan_ = std::max(makespan_, free_at_[d]);
    cost_ = std::max(cost_, free_at_[d] - first_start_[d]);
    ends += free_at_[d];
  }
  const double excess =
      std::max(0.0, cost_ - problem_.cost_goal) + std::max(0.0, makespan_ - problem_.makespan_goal);
  score_ = makespan_ + kCostWeight * cost_ + kEndWeight * ends / problem_.devices +
           kExcessWeight * excess;
}

int Evaluator::critical_device() const {
  int device = 0;
  const bool dear = cost_ > problem_.cost_goal;
  const auto span = [&](int d) { return free_at_[d] - (dear ? first_start_[d] : 0.0); };
  for (int d = 1; d < problem_.devices; ++d)
    if (span(d) > span(device)) device = d;
  return device;
}

void Evaluator::critical_path(const Orders& orders, std::vector<Position>& path) const {
  path.clear();
  int device = critical_device();
  int at = static_cast<int>(orders[device].size()) - 1;
  // The turn of the lane at each place is needed to name its operation; count back from the end.
  std::vector<int> turn(done_.begin(), done_.end());
  std::vector<int> counted(problem_.devices);
  for (int d = 0; d < problem_.devices; ++d) counted[d] = static_cast<int>(orders[d].size());
  while (at >= 0) {
    path.push_back({device, at});
    for (; counted[device] > at; --counted[device]) --turn[orders[device][counted[device] - 1]];
    const int lane = orders[device][at];
    const int op = lane * problem_.microbatches + turn[lane];
    const int by = bound_by_[op];
    if (by < 0) {
      --at;
    } else {
      at = at_[by];
      device = problem_.device_of_lane(by / problem_.microbatches);
    }
  }
}

}  // namespace cleave::plan::ordering
