#include "cleave/plan/tune/partition_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "cleave/plan/time/simulator.h"
#include "cleave/plan/time/trace.h"
#include "cleave/plan/tune/layout_check.h"
#include "cleave/plan/tune/partition.h"
#include "cleave/plan/tune/stage_gradients.h"
#include "cleave/schedule/generators.h"

namespace cleave::plan {
namespace {

using Sizes = std::vector<std::int64_t>;

/// A move that gains less is noise, and an even cut stands errors of the costs better.
constexpr double kWorthwhile = 1e-3;

/// Graphs of no more cuts than this are cut in every way.
constexpr double kFewCuts = 512;

/// Less is better: first what does not fit, then time.
using Value = std::pair<std::int64_t, double>;

/// All that the program of a cut depends on; many cuts have it in common.
struct CutShape {
  std::vector<PartEdge> edges;                    // between stages; empty: they form a chain
  std::vector<schedule::GradientKind> gradients;  // [stage]; empty: all learn

  friend auto operator<=>(const CutShape&, const CutShape&) = default;
};

/// The program of a cut, and what it keeps alive.
struct CutProgram {
  explicit CutProgram(schedule::Program made)
      : program(std::move(made)), alive(peak_activations(program)) {}

  schedule::Program program;
  std::vector<double> alive;  // [device] microbatches
};

class PartitionSearch {
 public:
  explicit PartitionSearch(const PartitionProblem& problem)
      : problem_(problem), chain_(program_for({})) {
    for (const SegmentWork& segment : problem.segments) gradients_.push_back(segment.gradients);
  }

  int stages() const { return chain_.program.stages; }

  double seconds(const Sizes& sizes) const {
    const schedule::Program& program = program_of(sizes).program;
    Costs costs{.edges = links_of(program)};
    std::int64_t next = 0;
    for (int s = 0; s < program.stages; ++s) {
      costs.stages.emplace_back().add_passes(sum(next, next + sizes[s]), 1 / device_of(s).speed);
      next += sizes[s];
    }
    return makespan(
        simulate(program, costs, {.record = Record::DevicesOnly, .at_once = problem_.at_once}));
  }

  std::vector<std::int64_t> bytes(const Sizes& sizes) const {
    std::vector<double> sums(problem_.devices.size(), 0);
    const CutProgram& cut = program_of(sizes);
    std::int64_t next = 0;
    for (int s = 0; s < stages(); ++s) {
      sums[device_number(s)] += stage_bytes(cut, s, next, next + sizes[s]);
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
                       const auto members = std::span(gradients_).subspan(begin, end - begin);
                       const auto kind = group_gradients(members, std::array{end - begin}).front();
                       return GroupCost{
                           .seconds = passes_run(sum(begin, end), kind) / device_of(stage).speed,
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

  /// Whether a graph is cut in few ways. Moving borders one by one ends early where towers run
  /// beside each other: what one stage gains another has to lose first.
  bool has_few_cuts() const {
    if (problem_.graph.empty()) return false;
    double cuts = 1;
    for (int s = 1; s < stages(); ++s)
      cuts *= static_cast<double>(std::ssize(problem_.segments) - s) / s;
    return cuts <= kFewCuts;
  }

  void try_every_cut(Sizes& best, Value& value) const {
    Sizes cut(static_cast<std::size_t>(stages()), 1);
    const auto fill = [&](const auto& self, int stage, std::int64_t left) -> void {
      std::int64_t& own = cut[static_cast<std::size_t>(stage)];
      const int after = stages() - 1 - stage;
      if (after > 0) {
        for (own = 1; left - own >= after; ++own) self(self, stage + 1, left - own);
        return;
      }
      own = left;
      const Value tried = this->value(cut);
      if (tried >= value) return;
      best = cut;
      value = tried;
    };
    fill(fill, 0, std::ssize(problem_.segments));
  }

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

  /// What the schedule makes of it, without what its stages are not asked for.
  CutProgram program_for(const CutShape& cut) const {
    schedule::PipelineShape shape{.devices = static_cast<int>(problem_.devices.size()),
                                  .microbatches = problem_.microbatches,
                                  .chunks = problem_.chunks};
    for (const PartEdge& edge : cut.edges)
      shape.graph.push_back({.from = edge.from, .to = edge.to});
    schedule::Program program = schedule::generate(problem_.schedule, shape);
    for (schedule::Edge& edge : program.edges) {
      edge.forward_bytes = edge.backward_bytes = problem_.message_bytes;
      edge.backward =
          cut.gradients.empty() || cut.gradients[edge.from] != schedule::GradientKind::None;
    }
    if (!cut.gradients.empty()) set_gradients(program, cut.gradients);
    return CutProgram(std::move(program));
  }

  const CutProgram& program_of(const Sizes& sizes) const {
    CutShape cut{stage_edges(problem_.graph, sizes), group_gradients(gradients_, sizes)};
    const auto learn = std::ranges::count(cut.gradients, schedule::GradientKind::Full);
    if (learn == std::ssize(sizes)) cut.gradients.clear();
    if (cut == CutShape{}) return chain_;
    const auto found = programs_.find(cut);
    if (found != programs_.end()) return found->second;
    CutProgram made = program_for(cut);
    return programs_.emplace(std::move(cut), std::move(made)).first->second;
  }

  /// A message that passes stages by takes as long as over the slowest link on its way.
  std::vector<LinkCosts> links_of(const schedule::Program& program) const {
    if (&program == &chain_.program || problem_.links.empty()) return problem_.links;
    std::vector<LinkCosts> links;
    for (const schedule::Edge& edge : program.edges) {
      LinkCosts slowest;
      for (int s = edge.from; s < edge.to; ++s)
        slowest = slower(slowest, problem_.links[static_cast<std::size_t>(s)]);
      links.push_back(slowest);
    }
    return links;
  }

  int device_number(int stage) const { return chain_.program.placement[stage][0]; }
  const PipelineDevice& device_of(int stage) const {
    return problem_.devices[device_number(stage)];
  }

  StageCosts sum(std::int64_t begin, std::int64_t end) const {
    StageCosts costs;
    for (std::int64_t i = begin; i < end; ++i) costs.add_passes(problem_.segments[i].time);
    return costs;
  }

  double stage_bytes(const CutProgram& cut, int stage, std::int64_t begin, std::int64_t end) const {
    double bytes = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const SegmentWork& segment = problem_.segments[i];
      bytes += static_cast<double>(segment.state) +
               cut.alive[device_number(stage)] * static_cast<double>(segment.kept);
    }
    return bytes;
  }

  /// A device with several stages is looked at as a whole, later.
  double stage_excess(int stage, std::int64_t begin, std::int64_t end) const {
    if (chain_.program.stages != chain_.program.devices) return 0;
    const double over =
        stage_bytes(chain_, stage, begin, end) - static_cast<double>(device_of(stage).memory);
    return std::max(0.0, over);
  }

  const PartitionProblem& problem_;
  CutProgram chain_;
  std::vector<schedule::GradientKind> gradients_;  // [segment]
  mutable std::map<CutShape, CutProgram> programs_;
};

}  // namespace

double passes_run(const StageCosts& time, schedule::GradientKind kind) {
  return time.forward + (schedule::makes_input_gradient(kind) ? time.input : 0) +
         (schedule::makes_weight_gradient(kind) ? time.weight : 0);
}

std::optional<PartitionChoice> choose_partition(const PartitionProblem& problem, Effort effort) {
  const PartitionSearch search(problem);
  check_stages(search.stages(), std::ssize(problem.segments) - 2);
  Sizes sizes = search.bottleneck();
  Value value = search.value(sizes);
  if (effort == Effort::Refined) search.refine(sizes, value);
  if (effort == Effort::Refined && search.has_few_cuts()) search.try_every_cut(sizes, value);
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
