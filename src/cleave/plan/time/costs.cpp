#include "cleave/plan/time/costs.h"

#include <algorithm>
#include <cmath>

#include "cleave/base/check.h"

namespace cleave::plan {

using schedule::Instruction;
using schedule::Op;
using schedule::Program;

Costs uniform_costs(const Program& program, const UniformCosts& uniform) {
  std::vector<int> chunks(program.devices, 0);
  for (const auto& replicas : program.placement) ++chunks[replicas.at(0)];

  Costs costs{.unit = ""};
  for (const auto& replicas : program.placement) {
    const double share = 1.0 / chunks[replicas[0]];
    costs.stages.push_back({.forward = uniform.f * share,
                            .input = uniform.i * share,
                            .weight = uniform.w * share,
                            .recompute = uniform.f * share});
  }
  costs.edges.assign(program.edges.size(), {.latency = uniform.comm});
  return costs;
}

namespace {

double share_of(double stage, const Program& program, const Instruction& instruction) {
  return instruction.segment < 0 ? stage : stage / program.segments[instruction.stage];
}

/// STEP may come in pieces, of which each takes an equal share.
double pieces_of_step(const Program& program, int device) {
  const auto pieces = std::ranges::count(program.lists[device], Op::Step, &Instruction::op);
  return static_cast<double>(std::max<std::ptrdiff_t>(1, pieces));
}

}  // namespace

double own_work(const Program& program, const Costs& costs, const Instruction& instruction) {
  const StageCosts& stage = costs.stages[instruction.stage];
  if (instruction.op == Op::Collect) return 0;  // a few rows of each microbatch
  return share_of(instruction.op == Op::Reduce ? stage.reduce_work : stage.gather_work, program,
                  instruction);
}

double duration(const Program& program, const Costs& costs, int device,
                const Instruction& instruction) {
  const auto share = [&](double StageCosts::*cost) {
    return share_of(costs.stages[instruction.stage].*cost, program, instruction);
  };
  const auto pass = [&](double StageCosts::*cost) {
    if (instruction.segment < 0 || costs.segments.empty()) return share(cost);
    const std::vector<StageCosts>& segments = costs.segments[instruction.stage];
    return segments.empty() ? share(cost) : segments[instruction.segment].*cost;
  };
  switch (instruction.op) {
    case Op::Forward:
      return pass(&StageCosts::forward);
    case Op::BackwardInput:
      return pass(&StageCosts::input);
    case Op::BackwardWeight:
      // Where nothing flows further back, W goes through all layers of the stage: it is the whole
      // backward.
      return pass(&StageCosts::weight) +
             (gradients_of(program, instruction.stage) == schedule::GradientKind::WeightOnly
                  ? pass(&StageCosts::input)
                  : 0);
    case Op::Backward:
      return pass(&StageCosts::input) + pass(&StageCosts::weight);
    case Op::Recompute:
      return share(&StageCosts::recompute);
    case Op::Gather:
    case Op::Refresh:
      return share(&StageCosts::gather);
    case Op::Reduce:
      return share(&StageCosts::reduce);
    case Op::Tie:
      return costs.ties.empty() ? 0 : costs.ties[instruction.edge];
    case Op::Norm:
      return costs.norm;
    case Op::Step:
      return costs.steps.empty() ? 0 : costs.steps[device] / pieces_of_step(program, device);
    case Op::Collect:
      return costs.stages[instruction.stage].collect;
    case Op::Send:
    case Op::Receive:
    case Op::Wait:
    case Op::Free:
    case Op::Out:
    case Op::In:
      return 0;
  }
  CLEAVE_CHECK(false, "unknown op ", static_cast<int>(instruction.op));
  return 0;
}

int measured_replica(const Program& program, const schedule::Edge& edge) {
  for (int r = 0; r < program.replicas; ++r)
    if (program.placement[edge.from][r] != program.placement[edge.to][r]) return r;
  return 0;
}

namespace {

void check_number(double value, const char* what, std::size_t index) {
  require(std::isfinite(value) && value >= 0, "the ", what, " cost at index ", index, " is ", value,
          ": costs are finite and not negative");
}

void check_size(std::size_t size, std::size_t expected, const char* what) {
  require(size == expected, "the costs have ", size, " ", what, ", the program has ", expected);
}

}  // namespace

void check(const Program& program, const Costs& costs) {
  check_size(costs.stages.size(), program.stages, "stages");
  if (!costs.edges.empty()) check_size(costs.edges.size(), program.edges.size(), "edges");
  if (!costs.ties.empty()) check_size(costs.ties.size(), program.ties.size(), "ties");
  if (!costs.steps.empty()) check_size(costs.steps.size(), program.devices, "devices");
  if (!costs.outside.empty()) check_size(costs.outside.size(), program.devices, "outsides");

  if (!costs.segments.empty()) check_size(costs.segments.size(), program.stages, "stages");
  for (std::size_t s = 0; s < costs.segments.size(); ++s) {
    if (costs.segments[s].empty()) continue;
    check_size(costs.segments[s].size(), program.segments[s], "segments");
    for (const StageCosts& segment : costs.segments[s])
      for (const double value : {segment.forward, segment.input, segment.weight})
        check_number(value, "segment", s);
  }
  for (std::size_t s = 0; s < costs.stages.size(); ++s) {
    const StageCosts& stage = costs.stages[s];
    for (const double value :
         {stage.forward, stage.input, stage.weight, stage.recompute, stage.gather,
          stage.gather_work, stage.reduce, stage.reduce_work, stage.collect})
      check_number(value, "stage", s);
  }
  for (std::size_t e = 0; e < costs.edges.size(); ++e) {
    check_number(costs.edges[e].latency, "edge latency", e);
    check_number(costs.edges[e].per_byte, "edge per-byte", e);
    check_number(costs.edges[e].credit, "edge credit", e);
    check_number(costs.edges[e].burst, "edge burst", e);
    check_number(costs.edges[e].shared_per_byte, "edge shared per-byte", e);
  }
  for (std::size_t d = 0; d < costs.outside.size(); ++d) {
    check_number(costs.outside[d].latency, "outside latency", d);
    check_number(costs.outside[d].per_byte, "outside per-byte", d);
  }
  for (std::size_t t = 0; t < costs.ties.size(); ++t) check_number(costs.ties[t], "tie", t);
  for (std::size_t d = 0; d < costs.steps.size(); ++d) check_number(costs.steps[d], "step", d);
  check_number(costs.norm, "norm", 0);
}

}  // namespace cleave::plan
