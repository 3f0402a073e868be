#include "cleave/plan/order/list_scheduler.h"

#include <algorithm>
#include <queue>

namespace cleave::plan::ordering {
namespace {

class ListScheduler {
 public:
  ListScheduler(const Problem& problem, const Rule& rule)
      : problem_(problem),
        rule_(rule),
        stages_of_(problem.stages_of_devices()),
        readers_(problem.lanes()),
        end_(static_cast<std::size_t>(problem.lanes()) * problem.microbatches),
        done_(problem.lanes(), 0),
        free_at_(problem.devices, 0.0),
        alive_(problem.devices, 0.0),
        orders_(problem.devices) {
    for (int lane = 0; lane < problem.lanes(); ++lane)
      for (const Need& need : problem.needs[lane])
        readers_[need.lane].push_back({lane, need.delay});
  }

  std::optional<Orders> run() {
    for (int d = 0; d < problem_.devices; ++d) events_.push({0.0, d});
    while (!events_.empty()) {
      const auto [time, device] = events_.top();
      events_.pop();
      if (time >= free_at_[device]) choose(device, time);
    }
    for (int lane = 0; lane < problem_.lanes(); ++lane)
      if (done_[lane] < problem_.microbatches) return std::nullopt;
    return std::move(orders_);
  }

 private:
  using Event = std::pair<double, int>;

  // When the next microbatch of a lane could start; kNever if that is not known yet.
  double ready_at(int lane) const {
    const int m = done_[lane];
    if (m == problem_.microbatches) return kNever;
    double ready = 0;
    if (pass_of(lane) != kForward) {
      if (done_[lane - 1] <= m) return kNever;
      ready = end_[(lane - 1) * problem_.microbatches + m];
    }
    for (const Need& need : problem_.needs[lane]) {
      const int of = m - need.behind;
      if (of < 0) continue;
      if (done_[need.lane] <= of) return kNever;
      ready = std::max(ready, end_[need.lane * problem_.microbatches + of] + need.delay);
    }
    return ready;
  }

  bool fits(int stage) const {
    const int d = problem_.device_of[stage];
    if (alive_[d] + problem_.activation[stage] > problem_.limit[d] + kSlack) return false;
    return !rule_.reserve || leaves_a_way_out(problem_, stages_of_[d], done_, stage);
  }

  bool runs_ahead(int stage) const {
    const int in_flight = done_[lane_of(stage, kForward)] - done_[lane_of(stage, kInput)];
    return !rule_.ahead.empty() && in_flight >= rule_.ahead[stage];
  }

  // The best lane of one pass at `time`, or -1; lowers `soon` to when one could start later.
  int pick(int device, PassKind pass, double time, double& soon) const {
    int best = -1;
    const std::vector<int>& stages = stages_of_[device];
    for (std::size_t k = 0; k < stages.size(); ++k) {
      const bool later = pass != kForward || rule_.chunk == Rule::Chunk::Later;
      const int stage = later ? stages[stages.size() - 1 - k] : stages[k];
      if (pass == kForward && (!fits(stage) || runs_ahead(stage))) continue;
      const double ready = ready_at(lane_of(stage, pass));
      if (ready <= time && best < 0) best = lane_of(stage, pass);
      if (ready > time) soon = std::min(soon, ready);
    }
    return best;
  }

  void choose(int device, double time) {
    double soon = kNever;
    double never = kNever;
    const int input = pick(device, kInput, time, soon);
    const int forward = pick(device, kForward, time, soon);
    const int weight = pick(device, kWeight, time, never);
    int lane = rule_.first == Rule::First::Input ? (input >= 0 ? input : forward)
                                                 : (forward >= 0 ? forward : input);
    if (rule_.eager_weight && weight >= 0 && lane == forward) lane = weight;
    if (lane < 0 && weight >= 0 && soon > time + rule_.patience * problem_.duration[weight])
      lane = weight;
    if (lane >= 0)
      start(device, lane, time);
    else if (soon < kNever)
      events_.push({soon, device});
    // Otherwise whoever starts what this device needs wakes it.
  }

  void start(int device, int lane, double time) {
    const double end = time + problem_.duration[lane];
    end_[lane * problem_.microbatches + done_[lane]] = end;
    ++done_[lane];
    orders_[device].push_back(lane);
    if (pass_of(lane) == kForward) alive_[device] += problem_.activation[stage_of(lane)];
    if (pass_of(lane) == kWeight) alive_[device] -= problem_.activation[stage_of(lane)];
    free_at_[device] = end;
    events_.push({end, device});
    for (const Need& reader : readers_[lane])
      events_.push({end + reader.delay, problem_.device_of_lane(reader.lane)});
  }

  const Problem& problem_;
  const Rule& rule_;
  std::vector<std::vector<int>> stages_of_;
  std::vector<std::vector<Need>> readers_;  // [lane] -> who needs it, and how much later
  std::vector<double> end_;                 // [lane * microbatches + microbatch]
  std::vector<int> done_;                   // [lane]
  std::vector<double> free_at_;
  std::vector<double> alive_;
  Orders orders_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace

std::optional<Orders> list_schedule(const Problem& problem, const Rule& rule) {
  return ListScheduler(problem, rule).run();
}

}  // namespace cleave::plan::ordering
