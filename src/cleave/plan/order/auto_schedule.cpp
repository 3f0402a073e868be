#include "cleave/plan/order/auto_schedule.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <tuple>

#include "cleave/base/check.h"
#include "cleave/plan/order/beam_search.h"
#include "cleave/plan/order/list_scheduler.h"
#include "cleave/plan/order/local_search.h"
#include "cleave/plan/order/problem.h"
#include "cleave/plan/order/replica_orders.h"
#include "cleave/plan/time/simulator.h"
#include "cleave/plan/time/trace.h"
#include "cleave/schedule/graph.h"

namespace cleave::plan {

using ordering::Orders;
using ordering::Problem;
using ordering::Rule;
using ordering::Solution;
using schedule::PipelineShape;
using schedule::Program;

namespace {

// Some hundred orders, of three instructions per forward, are in memory at once.
constexpr std::int64_t kMostForwards = 100'000;
// The search evaluates whole orders: so many of them, or until so many instructions.
constexpr std::int64_t kMostMoves = 30'000;
constexpr std::int64_t kMostInstructions = 60'000'000;
constexpr double kRounding = 1e-12;  // sums of the same times in another order
constexpr std::int64_t kBeamSteps = 6'000;
constexpr std::int64_t kWidestBeam = 100;
constexpr int kImproved = 3;  // starting points that are worth improving

std::vector<int> chunks_of_devices(const Program& layout) {
  std::vector<int> chunks(layout.devices, 0);
  for (const auto& replicas : layout.placement) ++chunks[replicas.at(0)];
  return chunks;
}

Problem make_problem(const Program& layout, const Costs& costs, const ActivationLimits& limits) {
  const std::vector<int> chunks = chunks_of_devices(layout);
  std::vector<double> activation = limits.stages;
  if (activation.empty())
    for (const auto& replicas : layout.placement) activation.push_back(1.0 / chunks[replicas[0]]);
  std::vector<double> limit = limits.devices;
  if (limit.empty()) limit.assign(layout.devices, std::numeric_limits<double>::infinity());
  require(std::ssize(limit) == layout.devices, limit.size(), " limits for ", layout.devices,
          " devices");
  require(std::ssize(activation) == layout.stages, activation.size(), " activation sizes for ",
          layout.stages, " stages");

  Problem problem = ordering::make_problem(layout, costs, activation, limit);
  std::vector<double> whole(layout.devices, 0.0);
  for (int s = 0; s < layout.stages; ++s) whole[problem.device_of[s]] += activation[s];
  for (int d = 0; d < layout.devices; ++d)
    if (whole[d] > limit[d] + ordering::kSlack)
      throw DoesNotFit(detail::concat("device ", d, " may keep ", limit[d],
                                      " microbatches alive, but one counts ", whole[d],
                                      "; raise the memory limit"));
  return problem;
}

std::optional<Program> try_generate(std::string_view name, const PipelineShape& shape) {
  try {
    return schedule::generate(name, shape);
  } catch (const UserError&) {
    return std::nullopt;  // the schedule has no such shape
  }
}

bool is_chain(const Program& layout) {
  for (const schedule::Edge& edge : layout.edges)
    if (edge.to != edge.from + 1) return false;
  return true;
}

class AutoScheduler {
 public:
  AutoScheduler(const Program& layout, const Costs& costs, Problem problem)
      : layout_(layout), costs_(costs), problem_(std::move(problem)) {}

  Program run() {
    const std::vector<Program> named = named_that_fit();
    for (const Program& program : named) set_goals(program);
    for (const Program& program : named) add(ordering::to_orders(program));
    add_listed();
    add_beam();
    CLEAVE_CHECK(!solutions_.empty(), "no order of ", layout_.stages, " stages was found");
    std::ranges::stable_sort(solutions_, {}, &Solution::score);
    const auto same = [](const Solution& a, const Solution& b) { return a.orders == b.orders; };
    solutions_.erase(std::unique(solutions_.begin(), solutions_.end(), same), solutions_.end());
    improve();
    Program program = ordering::to_program(layout_, best().orders);
    program.schedule = "auto";
    program.buffers.clear();
    return program;
  }

 private:
  bool fits(const Orders& orders) const {
    for (int d = 0; d < layout_.devices; ++d)
      if (!ordering::is_valid(problem_, d, orders[d])) return false;
    return true;
  }

  void add(Orders orders) {
    if (!fits(orders)) return;
    if (auto solution = ordering::evaluated(problem_, std::move(orders)))
      solutions_.push_back(std::move(*solution));
  }

  std::vector<Program> named_that_fit() const {
    PipelineShape shape{.devices = layout_.devices,
                        .microbatches = layout_.microbatches,
                        .chunks = layout_.stages / layout_.devices};
    if (!is_chain(layout_)) shape.graph = layout_.edges;
    std::vector<Program> named;
    for (const std::string_view name : schedule::schedule_names()) {
      auto program = try_generate(name, shape);
      if (!program || program->placement != layout_.placement) continue;
      program->edges = layout_.edges;
      program->gradients = layout_.gradients;
      leave_out_undemanded(*program);
      if (fits(ordering::to_orders(*program))) named.push_back(std::move(*program));
    }
    return named;
  }

  // The goals are those of the schedule as it is: split into I and W it may be better already.
  void set_goals(const Program& named) {
    const Summary summary =
        summarise(named, simulate(named, costs_, {.record = Record::DevicesOnly}));
    problem_.makespan_goal = std::min(problem_.makespan_goal, summary.makespan * (1 + kRounding));
    problem_.cost_goal = std::min(problem_.cost_goal, summary.cost * (1 + kRounding));
  }

  void add_listed() {
    for (const Rule::First first : {Rule::First::Input, Rule::First::Forward})
      for (const Rule::Chunk chunk : {Rule::Chunk::Later, Rule::Chunk::Earlier})
        for (const bool reserve : {true, false})
          for (const bool eager : {false, true})
            for (const double patience : {0.0, 0.3, 0.6, 1.0})
              for (const int extra : {-1, 0, 1, 2, 4})
                add_listed({.first = first,
                            .chunk = chunk,
                            .eager_weight = eager,
                            .patience = patience,
                            .reserve = reserve,
                            .ahead = ahead(extra)});
  }

  // As many F ahead of their I as 1F1B has, and `extra`; no bound for -1.
  std::vector<int> ahead(int extra) const {
    std::vector<int> most;
    if (extra < 0) return most;
    const auto after = schedule::longest_paths(layout_.stages, layout_.edges);
    for (int s = 0; s < layout_.stages; ++s) most.push_back(after.value()[s] + 1 + extra);
    return most;
  }

  void add_listed(const Rule& rule) {
    if (auto orders = ordering::list_schedule(problem_, rule)) add(std::move(*orders));
  }

  void add_beam() {
    const std::int64_t instructions =
        static_cast<std::int64_t>(problem_.lanes()) * problem_.microbatches;
    const auto width = std::clamp<std::int64_t>(kBeamSteps / instructions, 2, kWidestBeam);
    for (Orders& orders : ordering::beam_search(problem_, static_cast<int>(width), kImproved))
      add(std::move(orders));
  }

  void improve() {
    const std::int64_t instructions =
        static_cast<std::int64_t>(problem_.lanes()) * problem_.microbatches;
    const std::int64_t moves = std::min(kMostMoves, kMostInstructions / instructions) / kImproved;
    const auto count = std::min<std::size_t>(kImproved, solutions_.size());
    for (std::size_t k = 0; k < count; ++k)
      solutions_.push_back(ordering::improve(problem_, solutions_[k], moves, k));
  }

  // No named schedule may be faster, whatever else it costs; nor cheaper, if that can be had.
  const Solution& best() const {
    return *std::ranges::min_element(solutions_, {}, [&](const Solution& s) {
      return std::tuple(s.makespan > problem_.makespan_goal, s.cost > problem_.cost_goal, s.score);
    });
  }

  const Program& layout_;
  const Costs& costs_;
  Problem problem_;
  std::vector<Solution> solutions_;
};

}  // namespace

Program auto_schedule(const Program& layout, const Costs& costs, const ActivationLimits& limits) {
  require(layout.replicas == 1, "auto schedules one replica; copy it to the others");
  require(std::int64_t{layout.stages} * layout.microbatches <= kMostForwards, layout.stages,
          " stages x ", layout.microbatches, " microbatches are more than the ", kMostForwards,
          " forwards that auto can order; take a named schedule");
  check(layout, costs);
  // Microbatches must be alike for the search: it orders them as if every stage took part in all of
  // them, and what is absent is left out at the end.
  Program whole = layout;
  whole.absent.clear();
  Program program = AutoScheduler(whole, costs, make_problem(whole, costs, limits)).run();
  program.absent = layout.absent;
  if (!program.absent.empty()) leave_out_undemanded(program);
  return program;
}

std::vector<Program> placements(const PipelineShape& shape) {
  std::vector<Program> found;
  for (const std::string_view name : schedule::schedule_names()) {
    auto program = try_generate(name, shape);
    const auto known = [&](const Program& p) { return p.placement == program->placement; };
    if (program && std::ranges::none_of(found, known)) found.push_back(std::move(*program));
  }
  // Bad devices, microbatches or edges: let a schedule that takes such a shape say so.
  if (found.empty())
    found.push_back(schedule::generate(
        schedule::plainest_schedule(shape.graph.empty() ? schedule::kMostChunks : 1).name, shape));
  return found;
}

namespace {

/// Once absences are left out, a named schedule may beat what was best with them.
void take_better_named(const PipelineShape& shape, const AutoOptions& options, double least,
                       Program& best) {
  for (const std::string_view name : schedule::schedule_names()) {
    auto program = try_generate(name, shape);
    if (!program || program->placement != best.placement) continue;
    const Costs costs = options.costs ? options.costs(*program) : uniform_costs(*program, {});
    const Summary summary =
        summarise(*program, simulate(*program, costs, {.record = Record::DevicesOnly}));
    const auto alive = [](const DeviceSummary& d) { return d.peak_activations; };
    if (std::ranges::max(summary.devices | std::views::transform(alive)) > options.limit) continue;
    if (summary.makespan + summary.cost >= least) continue;
    least = summary.makespan + summary.cost;
    best = std::move(*program);
    best.schedule = "auto";
  }
}

}  // namespace

Program generate(std::string_view kind, const PipelineShape& shape, const AutoOptions& options) {
  if (kind != "auto") return schedule::generate(kind, shape);
  PipelineShape resolved = shape;
  if (resolved.chunks == 0) resolved.chunks = 1;
  if (!resolved.replicas.empty()) return best_order_of_replicas(resolved, options);
  std::optional<Program> best;
  double least = std::numeric_limits<double>::infinity();
  for (const Program& layout : placements(resolved)) {
    const Costs costs = options.costs ? options.costs(layout) : uniform_costs(layout, {});
    Program program = auto_schedule(
        layout, costs, {.devices = std::vector<double>(layout.devices, options.limit)});
    const Summary summary =
        summarise(program, simulate(program, costs, {.record = Record::DevicesOnly}));
    if (summary.makespan + summary.cost >= least) continue;
    least = summary.makespan + summary.cost;
    best = std::move(program);
  }
  if (!shape.absent.empty()) take_better_named(resolved, options, least, *best);
  return *best;
}

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names = schedule::schedule_names();
  names.push_back("auto");
  return names;
}

}  // namespace cleave::plan
