#include "cleave/schedule/graph.h"

#include <random>

#include "support/errors.h"
#include <gtest/gtest.h>

#include "cleave/plan/order/auto_schedule.h"
#include "cleave/plan/time/simulator.h"
#include "cleave/plan/time/trace.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/passes.h"
#include "cleave/schedule/verifier.h"

namespace cleave::schedule {
namespace {

using cleave::testing::user_error;

using Cost = plan::UniformCosts;

std::vector<Edge> edges(const std::vector<std::pair<int, int>>& pairs) {
  std::vector<Edge> result;
  for (const auto& [from, to] : pairs) result.push_back({.from = from, .to = to});
  return result;
}

/// F, I and W of each stage; all 1 if there are none.
plan::Costs costs_of(const Program& program, const std::vector<Cost>& stages) {
  plan::Costs costs = plan::uniform_costs(program, {});
  for (std::size_t s = 0; s < stages.size(); ++s)
    costs.stages[s] = {.forward = stages[s].f, .input = stages[s].i, .weight = stages[s].w};
  return costs;
}

/// Proves the lowered program and times it.
plan::Summary timed(const Program& program, const std::vector<Cost>& stages = {}) {
  const Program final = lower(program, {});
  std::string faults;
  for (const Violation& v : verify(final)) faults += to_string(final, v) + "\n";
  EXPECT_EQ(faults, "");
  return plan::summarise(final, plan::simulate(final, costs_of(final, stages)));
}

std::vector<double> peaks(const plan::Summary& summary) {
  std::vector<double> result;
  for (const auto& device : summary.devices) result.push_back(device.peak_activations);
  return result;
}

// Checked by two independent simulators; F = I = W = 1 and no communication unless given.
TEST(Graph, OneFOneBTakesWhatOthersFound) {
  struct Row {
    std::vector<std::pair<int, int>> graph;
    int microbatches;
    double makespan;
    std::vector<double> peaks;
  };
  const std::vector<Row> rows = {
      {{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}}, 32, 117, {8, 7, 6, 5, 4, 3, 2, 1}},
      {{{0, 1}, {1, 2}, {2, 3}, {4, 5}, {5, 6}, {6, 7}, {7, 3}}, 32, 108, {4, 3, 2, 1, 5, 4, 3, 2}},
      {{{0, 1}, {1, 3}, {2, 3}, {3, 4}, {4, 5}}, 24, 84, {5, 4, 4, 3, 2, 1}},
      {{{0, 1}, {0, 2}, {1, 2}, {2, 3}}, 16, 57, {4, 3, 2, 1}},
  };
  for (const Row& row : rows) {
    const int stages = static_cast<int>(row.peaks.size());
    const plan::Summary summary = timed(generate(
        "1f1b", {.devices = stages, .microbatches = row.microbatches, .graph = edges(row.graph)}));
    EXPECT_EQ(summary.makespan, row.makespan);
    EXPECT_EQ(peaks(summary), row.peaks);
  }
}

// A frozen encoder of 12 layers and a frozen language model of 24 through which gradients flow to
// what learns between the two; cut without and with that in mind.
TEST(Graph, AFrozenEncoderIsNeverRunBackward) {
  const PipelineShape shape{
      .devices = 3, .microbatches = 24, .graph = edges({{0, 1}, {1, 2}}), .frozen = {0}};
  const Program naive = generate("1f1b", shape);
  EXPECT_EQ(naive.gradients,
            (std::vector{GradientKind::None, GradientKind::WeightOnly, GradientKind::Full}));
  const std::vector<Cost> costs = {
      {.f = 12, .i = 0, .w = 0}, {.f = 12, .i = 12, .w = 0}, {.f = 12, .i = 12, .w = 0}};
  EXPECT_EQ(timed(naive, costs).makespan, 612);
  EXPECT_EQ(timed(generate("1f1b", {.devices = 3, .microbatches = 24}), costs).makespan, 612);

  const plan::Summary aware =
      timed(generate("1f1b", {.devices = 3, .microbatches = 24}),
            {{.f = 16, .i = 4, .w = 0}, {.f = 10, .i = 10, .w = 0}, {.f = 10, .i = 10, .w = 0}});
  EXPECT_EQ(aware.makespan, 520);
  EXPECT_EQ(peaks(aware), (std::vector<double>{3, 2, 1}));
}

TEST(Graph, AbsentMicrobatchesAreLeftOut) {
  PipelineShape shape{.devices = 4, .microbatches = 16};
  const std::vector<Cost> costs = {{.f = 2, .i = 2, .w = 2}, {}, {}, {}};
  const plan::Summary dummies = timed(generate("1f1b", shape), costs);
  EXPECT_EQ(dummies.makespan, 99);
  EXPECT_EQ(peaks(dummies), (std::vector<double>{4, 3, 2, 1}));

  for (int m = 1; m < 16; m += 2) shape.absent.push_back({.stage = 0, .microbatch = m});
  const plan::Summary left_out = timed(generate("1f1b", shape), costs);
  EXPECT_EQ(left_out.makespan, 75);
  EXPECT_EQ(peaks(left_out), (std::vector<double>{2, 3, 2, 1}));
}

// The sender of frozen features waits for its oldest message rather than have all of them alive.
TEST(Graph, AFrozenStageKeepsAsManyMessagesAsItsDistance) {
  const Program program =
      lower(generate("1f1b", {.devices = 3, .microbatches = 20, .frozen = {0}}), {});
  int open = 0;
  int most = 0;
  for (const Instruction& i : program.lists[0]) {
    open += i.op == Op::Send;
    open -= i.op == Op::Wait && i.completes == Op::Send;
    most = std::max(most, open);
  }
  EXPECT_EQ(most, 3);
}

TEST(Graph, AutoIsNoWorseThanTheNamedOnes) {
  for (const std::vector<int>& frozen : {std::vector<int>{}, {0, 1}, {3}}) {
    PipelineShape shape{.devices = 6,
                        .microbatches = 8,
                        .graph = edges({{0, 1}, {1, 3}, {2, 3}, {3, 4}, {4, 5}}),
                        .frozen = frozen};
    for (int round = 0; round < 2; ++round) {
      const double found = timed(plan::generate("auto", shape)).makespan;
      for (const char* name : {"gpipe", "1f1b", "zb-h1"})
        EXPECT_LE(found, timed(generate(name, shape)).makespan) << name;
      for (int m = 0; m < 8; m += 3) shape.absent.push_back({.stage = 2, .microbatch = m});
    }
  }
}

TEST(Graph, EverySchedulePassesTheVerifierOnRandomGraphs) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const int stages = 2 + static_cast<int>(random() % 7);
    std::vector<Edge> graph;
    for (int to = 1; to < stages; ++to)
      for (int from = 0; from < to; ++from)
        if (random() % 3 == 0 || from + 1 == to) graph.push_back({.from = from, .to = to});
    PipelineShape shape{
        .devices = stages, .microbatches = 1 + static_cast<int>(random() % 9), .graph = graph};
    if (random() % 2) shape.frozen = {static_cast<int>(random() % stages)};
    for (const Schedule& schedule : schedules())
      if (schedule.any_graph) timed(generate(schedule.name, shape));
  }
}

TEST(Graph, ChainOnlySchedulesRefuseByName) {
  const PipelineShape shape{.devices = 3, .graph = edges({{0, 2}, {1, 2}})};
  for (const Schedule& schedule : schedules()) {
    if (schedule.any_graph) continue;
    PipelineShape own = shape;
    own.chunks = schedule.chunks;
    EXPECT_EQ(user_error([&] { generate(schedule.name, own); }),
              "schedule " + std::string(schedule.name) +
                  " is made for a chain of stages, not for a graph; take gpipe, 1f1b, zb-h1, or "
                  "auto");
  }
  EXPECT_EQ(user_error([] {
              generate("1f1b", {.devices = 2, .graph = edges({{0, 1}, {1, 0}})});
            }),
            "the edges of the graph form a cycle; data must flow one way");
  EXPECT_EQ(user_error([] {
              generate("1f1b", {.devices = 2, .graph = edges({{0, 3}})});
            }),
            "the edge 0>3 names stage 3, but there are 2, from 0 on");
  EXPECT_EQ(user_error([] {
              generate("1f1b", {.devices = 2, .frozen = {0, 1}});
            }),
            "every stage is frozen, and nothing is left to learn");
}

}  // namespace
}  // namespace cleave::schedule
