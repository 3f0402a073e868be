#include "plan/order/oracle/exact.h"

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>

namespace cleave::plan::oracle {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();
constexpr double kTiny = 1e-9;

// What has been run and when that lets the rest go on. Microbatches run in turn at every stage.
struct State {
  std::vector<std::array<int, 3>> count;           // [stage] F, I, W done
  std::vector<double> free_at;                     // [device], not before the last start
  std::vector<std::vector<double>> forward_ends;   // [stage][microbatch]
  std::vector<std::vector<double>> backward_ends;  // [stage][microbatch]
  std::vector<double> alive;                       // [device]
  std::vector<double> first_start;                 // [device]
};

class BranchAndBound {
 public:
  BranchAndBound(const Pipeline& pipeline, double bound, std::int64_t most_states)
      : p_(pipeline),
        stages_(static_cast<int>(pipeline.device_of.size())),
        best_(bound),
        most_states_(most_states) {
    State start;
    start.count.assign(stages_, {0, 0, 0});
    start.free_at.assign(p_.devices, 0.0);
    start.forward_ends.assign(stages_, std::vector<double>(p_.microbatches, kUnknown));
    start.backward_ends = start.forward_ends;
    start.alive.assign(p_.devices, 0.0);
    start.first_start.assign(p_.devices, kUnknown);
    visit(start);
  }

  Exact result() const {
    if (states_ > most_states_) return {Answer::GaveUp, best_, states_};
    return {found_ ? Answer::Better : Answer::NothingBetter, best_, states_};
  }

 private:
  struct Step {
    double start;
    double lower_bound;
    State next;
  };

  void visit(const State& state) {
    if (++states_ > most_states_) return;
    if (is_complete(state)) {
      const double makespan = *std::ranges::max_element(state.free_at);
      if (makespan < best_ - kTiny) {
        best_ = makespan;
        found_ = true;
      }
      return;
    }
    std::vector<Step> steps;
    for (int d = 0; d < p_.devices; ++d) add_steps(state, d, steps);
    std::ranges::stable_sort(steps, [](const Step& a, const Step& b) {
      return std::pair(a.lower_bound, a.start) < std::pair(b.lower_bound, b.start);
    });
    for (const Step& step : steps) {
      if (step.lower_bound >= best_ - kTiny || is_dominated(step.next)) continue;
      visit(step.next);
    }
  }

  bool is_complete(const State& state) const {
    return std::ranges::all_of(state.count, [&](const auto& c) { return c[2] == p_.microbatches; });
  }

  // When the next microbatch of a pass could start as far as other stages are concerned.
  double ready(const State& state, int stage, int pass) const {
    const int m = state.count[stage][pass];
    if (m == p_.microbatches) return kUnknown;
    if (pass > 0 && state.count[stage][pass - 1] <= m) return kUnknown;
    if (pass == 0) return stage == 0 ? 0 : state.forward_ends[stage - 1][m] + p_.delay[stage - 1];
    if (pass == 1 && stage + 1 < stages_)
      return state.backward_ends[stage + 1][m] + p_.delay[stage];
    return 0;
  }

  void add_steps(const State& state, int device, std::vector<Step>& steps) const {
    // An I or W that fits into a gap goes there: it delays nothing and never adds memory.
    double filled_until = kUnknown;
    for (int pass = 1; pass < 3; ++pass)
      for (int s = 0; s < stages_; ++s)
        if (p_.device_of[s] == device)
          filled_until = std::min(filled_until, start_of(state, s, pass) + p_.seconds[s][pass]);

    for (int s = 0; s < stages_; ++s) {
      if (p_.device_of[s] != device) continue;
      for (int pass = 0; pass < 3; ++pass) {
        const double start = start_of(state, s, pass);
        if (start == kUnknown || start >= filled_until) continue;
        if (pass == 0 && state.alive[device] + p_.activation[s] > p_.limit[device] + kTiny)
          continue;
        if (start + p_.seconds[s][pass] - state.first_start[device] > p_.most_cost + kTiny)
          continue;
        Step step{start, 0, after(state, s, pass, start)};
        step.lower_bound = lower_bound(step.next);
        if (step.lower_bound < best_ - kTiny) steps.push_back(std::move(step));
      }
    }
  }

  double start_of(const State& state, int stage, int pass) const {
    return std::max(state.free_at[p_.device_of[stage]], ready(state, stage, pass));
  }

  State after(const State& state, int stage, int pass, double start) const {
    State next = state;
    const int device = p_.device_of[stage];
    const double end = start + p_.seconds[stage][pass];
    const int m = next.count[stage][pass]++;
    if (pass == 0) next.forward_ends[stage][m] = end;
    if (pass == 1) next.backward_ends[stage][m] = end;
    if (pass == 0) next.alive[device] += p_.activation[stage];
    if (pass == 2) next.alive[device] -= p_.activation[stage];
    next.first_start[device] = std::min(next.first_start[device], start);
    for (double& free_at : next.free_at) free_at = std::max(free_at, start);
    next.free_at[device] = end;
    return next;
  }

  // Each device from when it can next do anything, with all its work and the way back to stage 0.
  double lower_bound(const State& state) const {
    std::vector<double> next_forward(stages_, kUnknown);
    std::vector<double> next_input(stages_, kUnknown);
    for (int s = 0; s < stages_; ++s) {
      const int m = state.count[s][0];
      if (m == p_.microbatches) continue;
      next_forward[s] =
          s == 0 ? 0 : arrival(state, s - 1, 0, m, next_forward[s - 1]) + p_.delay[s - 1];
    }
    for (int s = stages_ - 1; s >= 0; --s) {
      const int m = state.count[s][1];
      if (m == p_.microbatches) continue;
      next_input[s] = arrival(state, s, 0, m, next_forward[s]);
      if (s + 1 < stages_)
        next_input[s] =
            std::max(next_input[s], arrival(state, s + 1, 1, m, next_input[s + 1]) + p_.delay[s]);
    }
    double bound = 0;
    for (int d = 0; d < p_.devices; ++d)
      bound = std::max(bound, device_bound(state, d, next_forward, next_input));
    return bound;
  }

  // When microbatch m leaves a pass of a stage at the earliest; `next` bounds its next start.
  double arrival(const State& state, int stage, int pass, int m, double next) const {
    const int done = state.count[stage][pass];
    if (m < done) return pass == 0 ? state.forward_ends[stage][m] : state.backward_ends[stage][m];
    const double start = std::max(state.free_at[p_.device_of[stage]], next);
    return start + (m - done + 1) * p_.seconds[stage][pass];
  }

  double device_bound(const State& state, int device, const std::vector<double>& next_forward,
                      const std::vector<double>& next_input) const {
    double earliest = kUnknown;
    double work = 0;
    double passes = 0;  // F and I
    double tail = 0;
    for (int s = 0; s < stages_; ++s) {
      if (p_.device_of[s] != device) continue;
      const auto& count = state.count[s];
      if (count[2] < count[1]) earliest = 0;
      earliest = std::min({earliest, next_forward[s], next_input[s]});
      for (int pass = 0; pass < 3; ++pass) {
        const double left = (p_.microbatches - count[pass]) * p_.seconds[s][pass];
        work += left;
        if (pass < 2) passes += left;
      }
      if (count[1] < p_.microbatches && tail == 0) tail = way_back(s);
    }
    if (work == 0) return state.free_at[device];
    const double begin = std::max(state.free_at[device], earliest);
    if (begin + work - state.first_start[device] > p_.most_cost + kTiny) return kUnknown;
    return begin + std::max(work, passes + tail);
  }

  // After the last I of a stage: the I of the stages before it, and the W of one of them.
  double way_back(int stage) const {
    double way = 0;
    double longest = p_.seconds[stage][2];
    for (int s = stage - 1; s >= 0; --s) {
      // On the same device its I is in the sum already.
      if (p_.device_of[s] == p_.device_of[stage]) return longest;
      way += p_.delay[s] + p_.seconds[s][1];
      longest = std::max(longest, way + p_.seconds[s][2]);
    }
    return longest;
  }

  bool is_dominated(const State& state) {
    std::string key;
    std::vector<double> times = state.free_at;
    // A later first start costs less.
    if (p_.most_cost < kUnknown)
      for (const double first : state.first_start) times.push_back(-first);
    for (int s = 0; s < stages_; ++s) {
      for (const int c : state.count[s]) key.push_back(static_cast<char>(c));
      if (s + 1 == stages_) continue;
      const double next_free = state.free_at[p_.device_of[s + 1]];
      const double previous_free = state.free_at[p_.device_of[s]];
      for (int m = state.count[s + 1][0]; m < state.count[s][0]; ++m)
        times.push_back(std::max(next_free, state.forward_ends[s][m] + p_.delay[s]));
      for (int m = state.count[s][1]; m < state.count[s + 1][1]; ++m)
        times.push_back(std::max(previous_free, state.backward_ends[s + 1][m] + p_.delay[s]));
    }
    const auto nowhere_later = [](const std::vector<double>& a, const std::vector<double>& b) {
      for (std::size_t i = 0; i < a.size(); ++i)
        if (a[i] > b[i] + kTiny) return false;
      return true;
    };
    auto& known = seen_[key];
    for (const auto& other : known)
      if (nowhere_later(other, times)) return true;
    std::erase_if(known, [&](const auto& other) { return nowhere_later(times, other); });
    known.push_back(std::move(times));
    return false;
  }

  const Pipeline& p_;
  int stages_;
  double best_;
  bool found_ = false;
  std::int64_t states_ = 0;
  std::int64_t most_states_;
  std::unordered_map<std::string, std::vector<std::vector<double>>> seen_;
};

}  // namespace

Exact least_makespan(const Pipeline& pipeline, double bound, std::int64_t most_states) {
  return BranchAndBound(pipeline, bound, most_states).result();
}

}  // namespace cleave::plan::oracle
