#include "cleave/plan/tune/partition_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cleave/plan/time/simulator.h"
#include "cleave/plan/time/trace.h"
#include "cleave/plan/tune/layout_check.h"
#include "cleave/plan/tune/partition.h"
#include "cleave/schedule/generators.h"

namespace cleave::plan {
namespace {

using Sizes = std::vector<std::int64_t>;

/// A move that gains less is noise, and an even cut stands errors of the costs better.
constexpr double kWorthwhile = 1e-3;

/// Less is better: first what does not fit, then time.
using Value = std::pair<std::int64_t, double>;

class PartitionSearch {
 public:
  explicit PartitionSearch(const PartitionProblem& problem)
      : problem_(problem),
        program_(schedule::generate(problem.schedule,
                                    {.devices = static_cast<int>(problem.devices.size()),
                                     .microbatches = problem.microbatches,
                                     .chunks = problem.chunks})),
        alive_(peak_activations(program_)) {
    for (schedule::Edge& edge : program_.edges)
      edge.forward_bytes = edge.backward_bytes = problem.message_bytes;
  }

  int stages() const { return program_.stages; }

  double seconds(const Sizes& sizes) const {
    Costs costs{.edges = problem_.links};
    std::int64_t next = 0;
    for (int s = 0; s < program_.stages; ++s) {
      costs.stages.emplace_back().add_passes(sum(next, next + sizes[s]), 1 / device_of(s).speed);
      next += sizes[s];
    }
    return makespan(
        simulate(program_, costs, {.record = Record::DevicesOnly, .at_once = problem_.at_once}));
  }

  std::vector<std::int64_t> bytes(const Sizes& sizes) const {
    std::vector<double> sums(problem_.devices.size(), 0);
    std::int64_t next = 0;
    for (int s = 0; s < program_.stages; ++s) {
      sums[program_.placement[s][0]] += stage_bytes(s, next, next + sizes[s]);
      next += sizes[s];
    }
    std::vector<std::int64_t> result;
    for (const double sum : sums) result.push_back(std::llround(std::ceil(sum)));
    return result;
  }

  std::int64_t excess(const Sizes& sizes) const {
    const std::vector<std::int64_t> needed = bytes(sizes);
    std::int64_t over = 0;
    for (std::size_t d = 0; d < needed.size(); ++d)
      over += std::max<std::int64_t>(0, needed[d] - problem_.devices[d].memory);
    return over;
  }

  Sizes bottleneck() const {
    return cut_chain(std::ssize(problem_.segments), stages(),
                     [&](int stage, std::int64_t begin, std::int64_t end) {
                       return GroupCost{
                           .seconds = sum(begin, end).passes() / device_of(stage).speed,
                           .excess = stage_excess(stage, begin, end)};
                     });
  }

  /// Moves `first` .. `last` borders together by one, as long as it helps.
  void refine(Sizes& sizes, Value& value) const {
    for (bool better = true; better;) {
      better = false;
      for (int first = 1; first < stages(); ++first) {
        for (int last = first; last < stages(); ++last) {
          for (const int by : {1, -1, 2, -2}) better |= attempt(sizes, value, {first, last, by});
        }
      }
    }
  }

  Value value(const Sizes& sizes) const { return {excess(sizes), seconds(sizes)}; }

 private:
  struct Move {
    int first;
    int last;
    int by;
  };

  bool attempt(Sizes& sizes, Value& value, const Move& move) const {
    Sizes moved = sizes;
    moved[move.first - 1] += move.by;
    moved[move.last] -= move.by;
    if (moved[move.first - 1] < 1 || moved[move.last] < 1) return false;
    const std::int64_t over = excess(moved);
    if (over > value.first) return false;
    const Value tried{over, seconds(moved)};
    if (over == value.first && tried.second > value.second * (1 - kWorthwhile)) return false;
    sizes = std::move(moved);
    value = tried;
    return true;
  }

  const PipelineDevice& device_of(int stage) const {
    return problem_.devices[program_.placement[stage][0]];
  }

  StageCosts sum(std::int64_t begin, std::int64_t end) const {
    StageCosts costs;
    for (std::int64_t i = begin; i < end; ++i) costs.add_passes(problem_.segments[i].time);
    return costs;
  }

  double stage_bytes(int stage, std::int64_t begin, std::int64_t end) const {
    double bytes = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const SegmentWork& segment = problem_.segments[i];
      bytes += static_cast<double>(segment.state) +
               alive_[program_.placement[stage][0]] * static_cast<double>(segment.kept);
    }
    return bytes;
  }

  /// A device with several stages is looked at as a whole, later.
  double stage_excess(int stage, std::int64_t begin, std::int64_t end) const {
    if (program_.stages != program_.devices) return 0;
    const double over =
        stage_bytes(stage, begin, end) - static_cast<double>(device_of(stage).memory);
    return std::max(0.0, over);
  }

  const PartitionProblem& problem_;
  schedule::Program program_;
  std::vector<double> alive_;  // [device] microbatches
};

}  // namespace

std::optional<PartitionChoice> choose_partition(const PartitionProblem& problem, Effort effort) {
  const PartitionSearch search(problem);
  check_stages(search.stages(), std::ssize(problem.segments) - 2);
  Sizes sizes = search.bottleneck();
  Value value = search.value(sizes);
  if (effort == Effort::Refined) search.refine(sizes, value);
  if (value.first > 0) return std::nullopt;
  return PartitionChoice{std::move(sizes), value.second};
}

double partition_seconds(const PartitionProblem& problem, const std::vector<std::int64_t>& sizes) {
  return PartitionSearch(problem).seconds(sizes);
}

std::vector<std::int64_t> partition_bytes(const PartitionProblem& problem,
                                          const std::vector<std::int64_t>& sizes) {
  return PartitionSearch(problem).bytes(sizes);
}

}  // namespace cleave::plan
