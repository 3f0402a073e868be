#include "cleave/engine/compile/order_search.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "cleave/engine/compile/optional_stages.h"
#include "cleave/engine/compile/step_stages.h"
#include "cleave/plan/order/auto_schedule.h"
#include "cleave/plan/order/replica_orders.h"
#include "cleave/plan/time/simulator.h"
#include "cleave/plan/time/trace.h"

namespace cleave::engine {
namespace {

using schedule::Op;
using schedule::Program;

double flops_of(const std::vector<SegmentSpec>& stage,
                const std::vector<MatmulSpec> LayerSpec::*pass) {
  double sum = 0;
  for (const SegmentSpec& segment : stage) {
    for (const LayerSpec& layer : segment.layers) {
      for (const MatmulSpec& product : layer.*pass) sum += static_cast<double>(product.flops());
    }
  }
  return sum;
}

plan::Costs costs_of(const CompileOptions& options, const CompiledStep& step) {
  if (options.costs) return options.costs(step.program);
  plan::Costs costs{.unit = ""};
  for (int s = 0; s < std::ssize(step.stages); ++s) {
    const auto share = [&](const std::vector<MatmulSpec> LayerSpec::*pass) {
      return flops_of(step.stages[s], pass) / devices_of(step, s);
    };
    costs.stages.push_back({.forward = share(&LayerSpec::forward),
                            .input = share(&LayerSpec::backward_input),
                            .weight = share(&LayerSpec::backward_weight)});
  }
  return costs;
}

/// An order has whole stages, and moves nothing out of memory. Where a tower feeds several layers,
/// a compiled program has several edges between two stages of which an order knows one; that one
/// takes what the slowest of them takes.
plan::Costs of_whole_stages(const Program& order, const Program& compiled, plan::Costs costs) {
  costs.segments.clear();
  costs.outside.clear();
  if (costs.edges.size() != compiled.edges.size() || order.edges.size() == compiled.edges.size())
    return costs;
  std::vector<plan::LinkCosts> edges;
  for (const schedule::Edge& edge : order.edges) {
    plan::LinkCosts& link = edges.emplace_back();
    for (std::size_t e = 0; e < compiled.edges.size(); ++e)
      if (compiled.edges[e].from == edge.from && compiled.edges[e].to == edge.to)
        link = plan::slower(link, costs.edges[e]);
  }
  costs.edges = std::move(edges);
  return costs;
}

double time_of(const Program& order, const plan::Costs& costs) {
  const plan::Summary summary =
      plan::summarise(order, plan::simulate(order, costs, {.record = plan::Record::DevicesOnly}));
  return summary.makespan + summary.cost;
}

/// Makes a B of every I that its W follows at once: the same order in less memory, but the next
/// device waits for the W too.
void fuse(std::vector<schedule::Instruction>& list) {
  std::vector<schedule::Instruction> fused;
  for (const schedule::Instruction& i : list) {
    const bool joins = i.op == Op::BackwardWeight && !fused.empty() &&
                       fused.back().op == Op::BackwardInput && fused.back().stage == i.stage &&
                       fused.back().microbatch == i.microbatch;
    if (joins) {
      fused.back().op = Op::Backward;
    } else {
      fused.push_back(i);
    }
  }
  list = std::move(fused);
}

/// The search on one placement.
class OrderSearch {
 public:
  OrderSearch(const CompileOptions& options, const CompileOrder& compile, const Program& layout)
      : compile_(compile),
        layout_(layout),
        step_(compile(layout)),
        costs_(of_whole_stages(layout, step_.program, costs_of(options, step_))),
        limits_(layout.devices, std::numeric_limits<double>::infinity()) {}

  void run() {
    do {
      order_ = plan::auto_schedule(layout_, costs_, {.devices = limits_});
      step_ = compile_(order_);
      if (fits()) break;
      for (int d = 0; d < layout_.devices; ++d) {
        if (excess(d) > 0) fuse(order_.lists[d]);
      }
      step_ = compile_(order_);
    } while (!fits() && tighten());
  }

  Ordered take() && { return {std::move(order_), std::move(step_)}; }

  /// How long the order takes that was found, in the unit of the costs.
  double time() const { return time_of(order_, costs_); }

  bool fits() const {
    for (int d = 0; d < layout_.devices; ++d) {
      if (excess(d) > 0) return false;
    }
    return true;
  }

 private:
  /// Bytes beyond the budget: the most of a device of the first replica and its copies.
  std::int64_t excess(int device) const {
    std::int64_t most = 0;
    const std::vector<std::int64_t>& budgets = step_.program.budgets;
    for (int d = device; d < std::ssize(budgets); d += layout_.devices)
      most = std::max(most, step_.planned_bytes[d] - budgets[d]);
    return most;
  }

  /// False if a device that does not fit keeps no more than one microbatch already.
  bool tighten() {
    const std::vector<double> alive = plan::peak_activations(order_);
    for (int d = 0; d < layout_.devices; ++d) {
      if (excess(d) <= 0) continue;
      if (alive[d] <= 1) return false;
      std::int64_t kept = 1;
      int chunks = 0;
      for (int s = 0; s < layout_.stages; ++s) {
        if (layout_.placement[s][0] != d) continue;
        for (const plan::SegmentMemory& segment : step_.memory[s].segments)
          kept += segment.kept_for_input + segment.kept_for_weight + segment.x;
        ++chunks;
      }
      const double fewer = static_cast<double>(excess(d)) / static_cast<double>(kept);
      limits_[d] = std::max(1.0, alive[d] - std::max(1.0 / chunks, fewer));
    }
    return true;
  }

  const CompileOrder& compile_;
  const Program& layout_;
  CompiledStep step_;
  plan::Costs costs_;
  std::vector<double> limits_;  // [device of the first replica] microbatches alive
  Program order_;
};

}  // namespace

namespace {

/// Bytes beyond the budgets of all places.
std::int64_t excess_of(const CompiledStep& step) {
  std::int64_t excess = 0;
  for (std::size_t d = 0; d < step.program.budgets.size(); ++d)
    excess += std::max<std::int64_t>(0, step.planned_bytes[d] - step.program.budgets[d]);
  return excess;
}

/// Where stages have different numbers of replicas: the fastest of a few orders that fits.
Ordered find_order_of_replicas(const Graph& model, const CompileOptions& options,
                               const schedule::PipelineShape& shape, const CompileOrder& compile) {
  std::vector<Program> orders;
  for (Program& order : plan::orders_of_replicas(shape))
    orders.push_back(with_segments(std::move(order), model, options));
  const plan::Costs costs = costs_of(options, compile(orders.front()));
  std::ranges::stable_sort(orders, {}, [&](const Program& p) { return time_of(p, costs); });
  std::optional<Ordered> best;
  for (Program& order : orders) {
    CompiledStep step = compile(order);
    const std::int64_t excess = excess_of(step);
    if (!best || excess < excess_of(best->step)) best = Ordered{std::move(order), std::move(step)};
    if (excess == 0) break;
  }
  return std::move(*best);
}

}  // namespace

Ordered find_order(const Graph& model, const CompileOptions& options,
                   const schedule::PipelineShape& shape, const CompileOrder& compile) {
  if (!shape.replicas.empty()) return find_order_of_replicas(model, options, shape, compile);
  std::optional<Ordered> best;
  auto rank = std::pair(true, std::numeric_limits<double>::infinity());
  for (const Program& whole : plan::placements(shape)) {
    const Program placed = with_segments(whole, model, options);
    OrderSearch search(options, compile, placed);
    search.run();
    const auto found = std::pair(!search.fits(), search.time());
    if (best && found >= rank) continue;
    rank = found;
    best = std::move(search).take();
  }
  return std::move(*best);
}

}  // namespace cleave::engine
