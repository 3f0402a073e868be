#include "cleave/plan/order/replica_orders.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/plan/time/simulator.h"
#include "cleave/plan/time/trace.h"

namespace cleave::plan {

using schedule::PipelineShape;
using schedule::Program;

namespace {

/// How much further than a schedule wants devices may run ahead.
constexpr int kFurtherAhead[] = {0, 1, 2, 4};

}  // namespace

std::vector<Program> orders_of_replicas(const PipelineShape& shape) {
  std::vector<Program> found;
  for (const schedule::Schedule& schedule : schedule::schedules()) {
    if (!schedule.any_graph) continue;
    for (const int further : kFurtherAhead) {
      PipelineShape ahead = shape;
      ahead.further_ahead = further;
      Program program = schedule::generate(schedule.name, ahead);
      program.schedule = "auto";
      const auto known = [&](const Program& p) { return p.lists == program.lists; };
      if (std::ranges::none_of(found, known)) found.push_back(std::move(program));
    }
  }
  CLEAVE_CHECK(!found.empty(), "no schedule takes different numbers of replicas");
  return found;
}

Program best_order_of_replicas(const PipelineShape& shape, const AutoOptions& options) {
  std::vector<Program> orders = orders_of_replicas(shape);
  Program* best = nullptr;
  std::pair<double, double> least;
  for (Program& order : orders) {
    const Costs costs = options.costs ? options.costs(order) : uniform_costs(order, {});
    const Summary summary =
        summarise(order, simulate(order, costs, {.record = Record::DevicesOnly}));
    const double alive = std::ranges::max(peak_activations(order));
    const std::pair rank(std::max(0.0, alive - options.limit), summary.makespan + summary.cost);
    if (best != nullptr && rank >= least) continue;
    least = rank;
    best = &order;
  }
  return std::move(*best);
}

}  // namespace cleave::plan
