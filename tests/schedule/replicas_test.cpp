// Stages with different numbers of replicas: a device that stands for several of another stage's
// runs their microbatches by turns, holds one copy of the weights, and is proven like any other.

#include <algorithm>

#include "support/errors.h"
#include <gtest/gtest.h>

#include "cleave/plan/memory/memory.h"
#include "cleave/plan/order/auto_schedule.h"
#include "cleave/plan/order/replica_orders.h"
#include "cleave/plan/time/simulator.h"
#include "cleave/plan/time/trace.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/leave_out.h"
#include "cleave/schedule/passes.h"
#include "cleave/schedule/text.h"
#include "cleave/schedule/torch_csv.h"
#include "cleave/schedule/verifier.h"

namespace cleave::schedule {
namespace {

using cleave::testing::user_error;

std::string words(const std::vector<Instruction>& list) {
  std::string text;
  for (const Instruction& i : list) text += (text.empty() ? "" : " ") + to_string(i);
  return text;
}

std::string faults(const Program& program, Level level = Level::Final) {
  std::string text;
  for (const Violation& v : verify(program, level)) text += to_string(program, v) + "\n";
  return text;
}

/// Two branches that meet, as an encoder and a text would, and a tail.
std::vector<Edge> two_branches() {
  return {{.from = 0, .to = 1}, {.from = 1, .to = 3}, {.from = 2, .to = 3}, {.from = 3, .to = 4}};
}

/// With messages, reductions and planned memory.
Program planned(Program program, const LowerOptions& options) {
  for (Edge& edge : program.edges) edge.forward_bytes = edge.backward_bytes = 64;
  program = lower(std::move(program), options);
  const plan::StageMemory memory{.weights = 64,
                                 .gradients = 64,
                                 .optimizer = 128,
                                 .kept_for_input = 64,
                                 .loaded = 64,
                                 .gathered = 128};
  plan::plan_memory(program, std::vector<plan::StageMemory>(program.stages, memory));
  return program;
}

TEST(UnequalReplicas, TakeTurnsOnTheDeviceThatStandsForThem) {
  const Program program = generate("1f1b", {.devices = 2, .microbatches = 2, .replicas = {2, 1}});

  EXPECT_EQ(program.replicas, 2);
  EXPECT_EQ(program.placement, (std::vector<std::vector<int>>{{0, 1}, {2, 2}}));
  EXPECT_EQ(words(program.lists[0]), "0F0 0F1 0B0 0B1");
  EXPECT_EQ(words(program.lists[1]), "0F0 0F1 0B0 0B1");
  EXPECT_EQ(words(program.lists[2]), "1F0 1B0 1F2 1B2 1F1 1B1 1F3 1B3");
}

TEST(UnequalReplicas, CountMicrobatchesOfOneReplicaAfterThoseOfTheOther) {
  const Program program = generate("gpipe", {.devices = 2, .microbatches = 3, .replicas = {1, 4}});
  const Topology topology(program);

  EXPECT_EQ(topology.microbatches(0), 12);
  EXPECT_EQ(topology.holders(0), 1);
  EXPECT_EQ(topology.holders(1), 4);
  for (int r = 0; r < 4; ++r)
    for (int m = 0; m < 3; ++m) {
      const OfReplica of = topology.of_replica(DeviceId{0}, MicrobatchId{r * 3 + m});
      EXPECT_EQ(of.replica, r);
      EXPECT_EQ(of.microbatch, m);
      EXPECT_EQ(topology.on_device(0, of), r * 3 + m);
      EXPECT_EQ(topology.on_device(program.placement[1][r], of), m);
    }
}

TEST(UnequalReplicas, AreSoundInEveryScheduleOfGraphsAndInPlannedMemory) {
  for (const auto name : {"gpipe", "1f1b", "zb-h1"})
    for (const std::vector<int>& replicas :
         {std::vector{4, 4, 2, 2, 2}, {4, 4, 1, 1, 1}, {1, 1, 2, 2, 2}, {2, 4, 1, 4, 2}})
      for (const Sharing sharing : {Sharing::Nothing, Sharing::Gradients, Sharing::Values})
        for (const int copies : {1, 2}) {
          PipelineShape shape{
              .devices = 5, .microbatches = 3, .graph = two_branches(), .replicas = replicas};
          const Program whole =
              planned(generate(name, shape), {.replicas = copies, .sharing = sharing});
          ASSERT_EQ(faults(whole), "") << name << to_text(whole);
          // The encoder has no part in what comes last.
          std::vector<Absence> absent;
          for (const int stage : {0, 1})
            for (int r = 0; r < whole.replicas; ++r)
              if (r > 0) absent.push_back({stage, 2, r});
          const Program part = leave_out(whole, absent);
          ASSERT_EQ(faults(part), "") << name << to_text(part);
        }
}

TEST(UnequalReplicas, ReduceOverTheDevicesThatHoldAStage) {
  const Program program = lower(
      generate("1f1b", {.devices = 2, .microbatches = 2, .replicas = {2, 1}}), {.replicas = 1});

  const auto reduces = [&](int device) {
    return std::ranges::count(program.lists[device], Op::Reduce, &Instruction::op);
  };
  EXPECT_EQ(reduces(0), 1);
  EXPECT_EQ(reduces(2), 0);
  EXPECT_EQ(faults(program), "");
}

// Two encoders of twice the language model's cost keep it as busy as one of the same cost would.
TEST(UnequalReplicas, KeepTheDeviceBusyThatTheyFeed) {
  const Program two =
      generate("1f1b", {.devices = 2, .microbatches = 12, .replicas = {2, 1}, .frozen = {0}});
  plan::Costs costs = plan::uniform_costs(two, {});
  costs.stages[0].forward = 6;

  const Program final = lower(two, {});
  ASSERT_EQ(faults(final), "");
  const double makespan = plan::summarise(final, plan::simulate(final, costs)).makespan;
  // The first arrives after 6; the language model has 24 microbatches of 3.
  EXPECT_DOUBLE_EQ(makespan, 6 + 24 * 3);
}

// A frozen encoder hears of nobody; what it has made and nobody has read stays bounded.
TEST(UnequalReplicas, BoundWhatAFrozenEncoderHasOnItsWay) {
  for (const std::vector<int>& replicas : {std::vector{2, 1}, {1, 2}}) {
    const Program program = lower(
        generate("1f1b", {.devices = 2, .microbatches = 16, .replicas = replicas, .frozen = {0}}),
        {});
    int most = 0;
    int now = 0;
    for (const Instruction& i : program.lists[0]) {
      now += i.op == Op::Send;
      now -= i.op == Op::Wait && i.completes == Op::Send;
      most = std::max(most, now);
    }
    EXPECT_LE(most, 8);
    EXPECT_EQ(faults(program), "");
  }
}

TEST(UnequalReplicas, AreOrderedByAutoAtLeastAsWellAsByName) {
  const PipelineShape shape{.devices = 3, .microbatches = 6, .replicas = {4, 1, 1}};
  const auto makespan = [](const Program& program) {
    return plan::summarise(program, plan::simulate(program, plan::uniform_costs(program, {})))
        .makespan;
  };
  const double found = makespan(plan::generate("auto", shape));
  for (const auto name : {"gpipe", "1f1b", "zb-h1"})
    EXPECT_LE(found, makespan(generate(name, shape))) << name;
}

TEST(UnequalReplicas, SurviveTheTextFormAndHaveNoCsv) {
  const Program program =
      planned(generate("zb-h1", {.devices = 3, .microbatches = 2, .replicas = {1, 2, 4}}), {});

  EXPECT_EQ(parse_program(to_text(program)), program);
  EXPECT_NE(user_error([&] { to_torch_csv(program); }).find("the CSV form has no replicas"),
            std::string::npos);
}

TEST(UnequalReplicas, AreRefusedByNameWhereAScheduleIsMadeForAChain) {
  const auto refusal = [](std::string_view name, const std::vector<int>& replicas) {
    return user_error(
        [&] { generate(name, {.devices = 2, .microbatches = 2, .replicas = replicas}); });
  };
  EXPECT_EQ(refusal("zb-h2", {2, 1}),
            "schedule zb-h2 is made for stages with one number of replicas; take gpipe, 1f1b, "
            "zb-h1, or auto");
  EXPECT_EQ(refusal("1f1b", {3, 2}),
            "stage 1 has 2 replicas, which does not divide the 3 of another; take a number that "
            "does");
  EXPECT_EQ(refusal("1f1b", {2}),
            "1 stages have a number of replicas, but there are 2 stages; give each of them one");
}

TEST(UnequalReplicas, MustBeNeighboursOnADeviceAndEquallyManyInAStage) {
  const Program sound =
      lower(generate("gpipe", {.devices = 2, .microbatches = 1, .replicas = {4, 2}}), {});
  const auto complaint = [&](const std::vector<int>& placement) {
    Program program = sound;
    program.placement[1] = placement;
    return faults(program);
  };
  EXPECT_EQ(complaint({4, 4, 5, 5}), "");
  EXPECT_EQ(complaint({4, 5, 4, 5}),
            "device 4: holds stages of replicas 0 and 2; a device works for the same replicas in "
            "all of its stages\ndevice 5: holds stages of replicas 1 and 3; a device works for the "
            "same replicas in all of its stages\n");
  EXPECT_EQ(complaint({4, 4, 4, 5}),
            "program: stage 1 has a device that stands for 3 replicas and one that stands for 1; "
            "make them equally many\n");
  EXPECT_EQ(complaint({0, 0, 1, 1}),
            "device 0: stands for 1 replicas of one stage and 2 of another; a device works for the "
            "same replicas in all of its stages\ndevice 1: holds stages of replicas 1 and 2; a "
            "device works for the same replicas in all of its stages\n");
  Program tied = sound;
  tied.ties = {{.first = 0, .second = 1}};
  EXPECT_EQ(faults(tied),
            "program: tie 0 joins stage 0 on 4 devices and stage 1 on 2; they need equally many\n");
}

}  // namespace
}  // namespace cleave::schedule
