#include "cleave/plan/order/problem.h"

#include <array>

#include "cleave/base/check.h"
#include "cleave/schedule/graph.h"

namespace cleave::plan::ordering {

using schedule::Instruction;
using schedule::Op;

std::vector<std::vector<int>> Problem::stages_of_devices() const {
  std::vector<std::vector<int>> stages_of(devices);
  for (int s = 0; s < stages; ++s) stages_of[device_of[s]].push_back(s);
  return stages_of;
}

Problem make_problem(const schedule::Program& layout, const Costs& costs,
                     std::span<const double> activation, std::span<const double> limit) {
  Problem problem{.stages = layout.stages,
                  .devices = layout.devices,
                  .microbatches = layout.microbatches,
                  .device_of = {},
                  .duration = {},
                  .needs = std::vector<std::vector<Need>>(layout.stages * kPasses),
                  .activation = {activation.begin(), activation.end()},
                  .limit = {limit.begin(), limit.end()}};
  for (int s = 0; s < layout.stages; ++s) {
    problem.device_of.push_back(layout.placement[s].at(0));
    const StageCosts& stage = costs.stages[s];
    const schedule::GradientKind kind = gradients_of(layout, s);
    problem.duration.push_back(stage.forward);
    const bool weight_only = kind == schedule::GradientKind::WeightOnly;
    problem.duration.push_back(makes_input_gradient(kind) ? stage.input : 0);
    problem.duration.push_back(weight_only                   ? stage.input + stage.weight
                               : makes_weight_gradient(kind) ? stage.weight
                                                             : 0);
  }
  const std::vector<int> windows = unheard_windows(layout, schedule::Topology(layout));
  for (std::size_t e = 0; e < layout.edges.size(); ++e) {
    const schedule::Edge& edge = layout.edges[e];
    const LinkCosts link = costs.edges.empty() ? LinkCosts{} : costs.edges[e];
    const bool local = problem.device_of[edge.from] == problem.device_of[edge.to];
    const auto delay = [&](std::int64_t bytes) { return local ? 0 : link.seconds(bytes); };
    problem.needs[lane_of(edge.to, kForward)].push_back(
        {lane_of(edge.from, kForward), delay(edge.forward_bytes)});
    if (edge.backward)
      problem.needs[lane_of(edge.from, kInput)].push_back(
          {lane_of(edge.to, kInput), delay(edge.backward_bytes)});
    if (windows[e] > 0)
      problem.needs[lane_of(edge.from, kForward)].push_back(
          {.lane = lane_of(edge.to, kForward), .behind = windows[e]});
  }
  return problem;
}

Orders to_orders(const schedule::Program& program) {
  Orders orders(program.devices);
  for (int d = 0; d < program.devices; ++d)
    for (const Instruction& i : program.lists[d]) {
      const schedule::GradientKind kind = gradients_of(program, i.stage);
      const bool forward = i.op == Op::Forward;
      const bool input = i.op == Op::BackwardInput || i.op == Op::Backward;
      const bool weight = i.op == Op::BackwardWeight || i.op == Op::Backward;
      const bool ends = forward && kind == schedule::GradientKind::None;
      if (forward) orders[d].push_back(lane_of(i.stage, kForward));
      if (input || ends || (weight && !makes_input_gradient(kind)))
        orders[d].push_back(lane_of(i.stage, kInput));
      if (weight || ends || (input && !makes_weight_gradient(kind)))
        orders[d].push_back(lane_of(i.stage, kWeight));
    }
  return orders;
}

schedule::Program to_program(const schedule::Program& layout, const Orders& orders) {
  constexpr std::array<Op, kPasses> kPassOps = {Op::Forward, Op::BackwardInput, Op::BackwardWeight};
  schedule::Program program = layout;
  std::vector<int> turn(layout.stages * kPasses, 0);
  for (int d = 0; d < layout.devices; ++d) {
    program.lists[d].clear();
    for (const int lane : orders[d])
      program.lists[d].push_back(
          {.op = kPassOps[pass_of(lane)], .stage = stage_of(lane), .microbatch = turn[lane]++});
  }
  leave_out_undemanded(program);
  return program;
}

bool is_valid(const Problem& problem, int device, const std::vector<int>& order) {
  std::vector<int> done(problem.lanes(), 0);
  double alive = 0;
  for (const int lane : order) {
    if (pass_of(lane) != kForward && done[lane] >= done[lane - 1]) return false;
    ++done[lane];
    if (pass_of(lane) == kForward) alive += problem.activation[stage_of(lane)];
    if (alive > problem.limit[device] + kSlack) return false;
    if (pass_of(lane) == kWeight) alive -= problem.activation[stage_of(lane)];
  }
  return true;
}

bool leaves_a_way_out(const Problem& problem, std::span<const int> stages,
                      const std::vector<int>& done, int stage) {
  if (stage == stages.back()) return true;
  const int through = done[lane_of(stages.back(), kForward)];
  double stuck = problem.activation[stage];
  for (const int s : stages)
    stuck += problem.activation[s] * (done[lane_of(s, kForward)] - through + (s > stage ? 1 : 0));
  return stuck <= problem.limit[problem.device_of[stage]] + kSlack;
}

}  // namespace cleave::plan::ordering
