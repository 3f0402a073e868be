#include "cleave/plan/order/beam_search.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace cleave::plan::ordering {
namespace {

constexpr double kTiny = 1e-9;

// Instructions run so far, and when that lets the rest go on.
struct Partial {
  std::vector<int> done;        // [lane]
  std::vector<double> end;      // [lane * microbatches + microbatch]
  std::vector<double> free_at;  // [device], not before the last start
  std::vector<double> alive;    // [device]
  std::int32_t trail = -1;      // its last instruction, in BeamSearch::trail_
};

struct Step {
  int parent = 0;
  int lane = 0;
  double start = 0;
  double bound = 0;   // of the makespan
  double bounds = 0;  // of all devices, added up
  std::uint64_t key = 0;
};

class BeamSearch {
 public:
  BeamSearch(const Problem& problem, int width)
      : problem_(problem),
        width_(width),
        stages_of_(problem.stages_of_devices()),
        tail_(problem.lanes(), 0.0),
        next_(problem.lanes(), 0.0) {
    sort_lanes();
    for (int k = problem.lanes(); k-- > 0;) add_tail(lanes_[k]);
  }

  std::vector<Orders> run(int most) {
    Partial start{.done = std::vector<int>(problem_.lanes(), 0),
                  .end = std::vector<double>(
                      static_cast<std::size_t>(problem_.lanes()) * problem_.microbatches, kNever),
                  .free_at = std::vector<double>(problem_.devices, 0.0),
                  .alive = std::vector<double>(problem_.devices, 0.0)};
    std::vector<Partial> beam{std::move(start)};
    const std::int64_t instructions =
        static_cast<std::int64_t>(problem_.lanes()) * problem_.microbatches;
    for (std::int64_t k = 0; k < instructions && !beam.empty(); ++k) beam = extend(beam);

    std::vector<Orders> found;
    for (const Partial& partial : beam)
      if (static_cast<int>(found.size()) < most) found.push_back(orders_of(partial));
    return found;
  }

 private:
  struct Trail {
    std::int32_t before;
    std::int32_t lane;
  };

  int microbatches() const { return problem_.microbatches; }

  // Lanes in an order in which each comes after those that it needs of the same microbatch.
  void sort_lanes() {
    std::vector<int> left(problem_.lanes(), 0);
    std::vector<std::vector<int>> after(problem_.lanes());
    for (int lane = 0; lane < problem_.lanes(); ++lane) {
      const auto follows = [&](int before) {
        after[before].push_back(lane);
        ++left[lane];
      };
      for (const Need& need : problem_.needs[lane])
        if (need.behind == 0) follows(need.lane);
      if (pass_of(lane) != kForward) follows(lane - 1);
    }
    for (int lane = 0; lane < problem_.lanes(); ++lane)
      if (left[lane] == 0) lanes_.push_back(lane);
    for (std::size_t k = 0; k < lanes_.size(); ++k)
      for (const int lane : after[lanes_[k]])
        if (--left[lane] == 0) lanes_.push_back(lane);
  }

  // What other devices must still do after the end of an instruction of `lane`. Visited from the
  // last lane to the first, so its readers' tails are known and it adds itself to what it needs.
  void add_tail(int lane) {
    if (pass_of(lane) == kInput) tail_[lane] = std::max(tail_[lane], problem_.duration[lane + 1]);
    for (const Need& need : problem_.needs[lane])
      if (need.behind == 0 && problem_.device_of_lane(need.lane) != problem_.device_of_lane(lane))
        tail_[need.lane] =
            std::max(tail_[need.lane], need.delay + problem_.duration[lane] + tail_[lane]);
  }

  std::vector<Partial> extend(std::vector<Partial>& beam) {
    steps_.clear();
    for (int parent = 0; parent < static_cast<int>(beam.size()); ++parent)
      add_steps(beam[parent], parent);
    std::ranges::stable_sort(steps_, [](const Step& a, const Step& b) {
      return std::pair(a.bound, a.bounds) < std::pair(b.bound, b.bounds);
    });

    std::vector<Partial> next;
    std::unordered_map<std::uint64_t, std::vector<int>> same;  // key -> places in `next`
    for (const Step& step : steps_) {
      if (static_cast<int>(next.size()) == width_) break;
      std::vector<int>& rivals = same[step.key];
      if (static_cast<int>(rivals.size()) > width_ / 4) continue;
      Partial child = beam[step.parent];
      apply(child, step.lane, step.start);
      if (std::ranges::any_of(rivals, [&](int r) { return nowhere_later(next[r], child); }))
        continue;
      trail_.push_back({beam[step.parent].trail, step.lane});
      child.trail = static_cast<std::int32_t>(trail_.size()) - 1;
      rivals.push_back(static_cast<int>(next.size()));
      next.push_back(std::move(child));
    }
    return next;
  }

  // Both have run the same instructions.
  static bool nowhere_later(const Partial& a, const Partial& b) {
    for (std::size_t d = 0; d < a.free_at.size(); ++d)
      if (a.free_at[d] > b.free_at[d] + kTiny) return false;
    return true;
  }

  void add_steps(Partial& partial, int parent) {
    // An I or W that fits into a gap goes there: it delays nothing and never adds memory.
    double filled_until = kNever;
    for (int lane = 0; lane < problem_.lanes(); ++lane)
      if (pass_of(lane) != kForward)
        filled_until = std::min(filled_until, start_of(partial, lane) + problem_.duration[lane]);
    const std::uint64_t key = key_of(partial);
    for (int lane = 0; lane < problem_.lanes(); ++lane) {
      const double start = start_of(partial, lane);
      if (start == kNever || start >= filled_until) continue;
      if (pass_of(lane) == kForward && !fits(partial, stage_of(lane))) continue;
      Step step{.parent = parent, .lane = lane, .start = start, .key = key + mark(lane)};
      set_bounds(partial, step);
      steps_.push_back(step);
    }
  }

  static std::uint64_t mark(int lane) {
    std::uint64_t x = static_cast<std::uint64_t>(lane + 1) * 0x9E3779B97F4A7C15u;
    return (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9u;
  }

  // Equal for equal counts: the sum of what every instruction adds.
  std::uint64_t key_of(const Partial& partial) const {
    std::uint64_t key = 0;
    for (int lane = 0; lane < problem_.lanes(); ++lane)
      key += mark(lane) * static_cast<std::uint64_t>(partial.done[lane]);
    return key;
  }

  double start_of(const Partial& partial, int lane) const {
    const int m = partial.done[lane];
    if (m == microbatches()) return kNever;
    if (pass_of(lane) != kForward && partial.done[lane - 1] <= m) return kNever;
    double start = partial.free_at[problem_.device_of_lane(lane)];
    for (const Need& need : problem_.needs[lane])
      if (m >= need.behind)
        start =
            std::max(start, partial.end[need.lane * microbatches() + m - need.behind] + need.delay);
    return start;
  }

  bool fits(const Partial& partial, int stage) const {
    const int d = problem_.device_of[stage];
    return partial.alive[d] + problem_.activation[stage] <= problem_.limit[d] + kSlack &&
           leaves_a_way_out(problem_, stages_of_[d], partial.done, stage);
  }

  void apply(Partial& partial, int lane, double start) const {
    const int d = problem_.device_of_lane(lane);
    const double end = start + problem_.duration[lane];
    partial.end[lane * microbatches() + partial.done[lane]++] = end;
    if (pass_of(lane) == kForward) partial.alive[d] += problem_.activation[stage_of(lane)];
    if (pass_of(lane) == kWeight) partial.alive[d] -= problem_.activation[stage_of(lane)];
    for (double& free_at : partial.free_at) free_at = std::max(free_at, start);
    partial.free_at[d] = end;
  }

  // As if the step were taken: `partial` is changed and changed back.
  void set_bounds(Partial& partial, Step& step) {
    const int d = problem_.device_of_lane(step.lane);
    const int op = step.lane * microbatches() + partial.done[step.lane];
    saved_free_at_ = partial.free_at;
    const double alive = partial.alive[d];
    apply(partial, step.lane, step.start);

    for (const int lane : lanes_) next_[lane] = next_start(partial, lane);
    for (int device = 0; device < problem_.devices; ++device) {
      const double bound = device_bound(partial, device);
      step.bound = std::max(step.bound, bound);
      step.bounds += bound;
    }

    partial.free_at = saved_free_at_;
    partial.alive[d] = alive;
    partial.end[op] = kNever;
    --partial.done[step.lane];
  }

  double next_start(const Partial& partial, int lane) const {
    const int m = partial.done[lane];
    if (m == microbatches()) return kNever;
    double next = pass_of(lane) == kForward ? 0 : arrival(partial, lane - 1, m);
    for (const Need& need : problem_.needs[lane])
      if (need.behind == 0) next = std::max(next, arrival(partial, need.lane, m) + need.delay);
    return next;
  }

  // When microbatch m leaves a lane at the earliest.
  double arrival(const Partial& partial, int lane, int m) const {
    const int done = partial.done[lane];
    if (m < done) return partial.end[lane * microbatches() + m];
    const double start = std::max(partial.free_at[problem_.device_of_lane(lane)], next_[lane]);
    return start + (m - done + 1) * problem_.duration[lane];
  }

  double device_bound(const Partial& partial, int device) const {
    double earliest = kNever;
    double work = 0;
    double passes = 0;
    double tail = kNever;
    for (const int stage : stages_of_[device])
      for (const PassKind pass : {kForward, kInput, kWeight}) {
        const int lane = lane_of(stage, pass);
        const int left = microbatches() - partial.done[lane];
        if (left == 0) continue;
        earliest = std::min(earliest, next_[lane]);
        work += left * problem_.duration[lane];
        if (pass != kWeight) passes += left * problem_.duration[lane];
        if (pass == kInput) tail = std::min(tail, tail_[lane]);
      }
    const double free_at = partial.free_at[device];
    if (earliest == kNever) return free_at;
    return std::max(free_at, earliest) + std::max(work, tail == kNever ? 0 : passes + tail);
  }

  Orders orders_of(const Partial& partial) const {
    Orders orders(problem_.devices);
    for (std::int32_t at = partial.trail; at >= 0; at = trail_[at].before)
      orders[problem_.device_of_lane(trail_[at].lane)].push_back(trail_[at].lane);
    for (auto& order : orders) std::ranges::reverse(order);
    return orders;
  }

  const Problem& problem_;
  int width_;
  std::vector<std::vector<int>> stages_of_;
  std::vector<double> tail_;  // [lane]
  std::vector<int> lanes_;    // each after those it needs
  std::vector<double> next_;  // [lane] lower bound of the next start, in set_bounds
  std::vector<double> saved_free_at_;
  std::vector<Step> steps_;
  std::vector<Trail> trail_;
};

}  // namespace

std::vector<Orders> beam_search(const Problem& problem, int width, int most) {
  return BeamSearch(problem, width).run(most);
}

}  // namespace cleave::plan::ordering
