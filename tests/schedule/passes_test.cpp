#include "cleave/schedule/passes.h"

#include <string>

#include "schedule/text_of.h"
#include "support/errors.h"
#include <gtest/gtest.h>

#include "cleave/plan/time/simulator.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/verifier.h"

namespace cleave::schedule {
namespace {

using cleave::testing::text_of;
using cleave::testing::user_error;

TEST(Communication, PlacesBothEndsByOneRule) {
  const Program program = lower(generate("1f1b", {.devices = 2, .microbatches = 2}), {});

  EXPECT_EQ(text_of(program.lists[0]),
            "0F0 SEND:0>0 RECV:0<0 0F1 SEND:0>1 "
            "RECV:0<1 WAIT:RECV:0<0 WAIT:SEND:0>0 0B0 "
            "WAIT:RECV:0<1 WAIT:SEND:0>1 0B1 NORM STEP");
  EXPECT_EQ(text_of(program.lists[1]),
            "RECV:0>0 WAIT:RECV:0>0 1F0 RECV:0>1 1B0 SEND:0<0 "
            "WAIT:RECV:0>1 1F1 1B1 SEND:0<1 WAIT:SEND:0<0 WAIT:SEND:0<1 NORM STEP");
}

TEST(Communication, SendsNothingBetweenStagesOfOneDevice) {
  Program program = generate("gpipe", {.devices = 2, .microbatches = 1});
  program.placement = {{0}, {0}};
  program.lists[0].insert(program.lists[0].begin() + 1, program.lists[1][0]);
  program.lists[0].insert(program.lists[0].begin() + 2, program.lists[1][1]);
  program.lists[1].clear();

  EXPECT_EQ(text_of(lower(program, {}).lists[0]), "0F0 1F0 1B0 0B0 NORM STEP");
}

TEST(Communication, SaysWhatIsMissing) {
  Program program = generate("gpipe", {.devices = 2, .microbatches = 2});
  program.lists[1].pop_back();
  EXPECT_EQ(user_error([&] { lower(program, {}); }), "no device runs 1I1 (or B)");
}

// A WAIT that stalled somebody, or a RECV that came too late, would show as time. The latency is
// no longer than the shortest compute instruction, 6 / 2 for one of two chunks.
TEST(Communication, CostsNoTimeBeyondTheLatency) {
  for (const auto schedule : schedule_names())
    for (int devices = 1; devices <= 5; ++devices)
      for (int microbatches : {1, 2, 4, 5, 7, 12}) {
        const Program compute =
            generate(schedule, {.devices = devices, .microbatches = microbatches});
        const Program program = lower(compute, {});
        const auto cost = [](const Program& p) {
          const auto costs = plan::uniform_costs(p, {.f = 8, .i = 6, .w = 10, .comm = 3});
          return plan::summarise(p, plan::simulate(p, costs)).cost;
        };
        EXPECT_EQ(cost(program), cost(compute))
            << schedule << ' ' << devices << " x " << microbatches;
      }
}

TEST(Replicas, RunTheSameListsOnTheirOwnDevices) {
  const Program one = generate("1f1b", {.devices = 2, .microbatches = 2});
  const Program two = lower(one, {.replicas = 2});

  EXPECT_EQ(two.devices, 4);
  EXPECT_EQ(two.placement, (std::vector<std::vector<int>>{{0, 2}, {1, 3}}));
  EXPECT_EQ(two.lists[0], two.lists[2]);
  EXPECT_EQ(two.lists[1], two.lists[3]);
}

Program one_stage(int microbatches, int segments) {
  Program program = generate("gpipe", {.devices = 1, .microbatches = microbatches});
  program.segments = {segments};
  return program;
}

TEST(Recompute, GoesBeforeTheWaitForTheGradient) {
  const Program program = lower(generate("zb-h1", {.devices = 2, .microbatches = 1}),
                                {.recompute = {Recompute::Full, Recompute::None}});

  EXPECT_EQ(text_of(program.lists[0]),
            "0F0 SEND:0>0 RECV:0<0 0R0 WAIT:RECV:0<0 WAIT:SEND:0>0 0I0 0W0 NORM STEP");
  EXPECT_EQ(text_of(program.lists[1]),
            "RECV:0>0 WAIT:RECV:0>0 1F0 1I0 SEND:0<0 1W0 WAIT:SEND:0<0 NORM STEP");
}

TEST(Segments, RunForwardsAndBackAgain) {
  EXPECT_EQ(text_of(lower(one_stage(1, 3), {.grain = Grain::Segment}).lists[0]),
            "0.0F0 0.1F0 0.2F0 0.2B0 0.1B0 0.0B0 NORM STEP");
}

TEST(Segments, RecomputeOneAtATime) {
  const Program program =
      lower(one_stage(1, 3), {.recompute = {Recompute::Full}, .grain = Grain::Segment});
  EXPECT_EQ(text_of(program.lists[0]),
            "0.0F0 0.1F0 0.2F0 0.2R0 0.2B0 0.1R0 0.1B0 0.0R0 0.0B0 NORM STEP");
}

TEST(Segments, FindTheRecomputeThatAPersonPlaced) {
  Program program = one_stage(2, 2);
  auto& list = program.lists[0];  // F0 F1 B0 B1
  list.insert(list.begin() + 2, {.op = Op::Recompute, .stage = 0, .microbatch = 1});
  list.insert(list.begin() + 2, {.op = Op::Recompute, .stage = 0, .microbatch = 0});
  EXPECT_EQ(text_of(lower(program, {.grain = Grain::Segment}).lists[0]),
            "0.0F0 0.1F0 0.0F1 0.1F1 0.1R0 0.1R1 0.1B0 0.0R0 0.0B0 0.1B1 0.0R1 0.0B1 NORM STEP");
  EXPECT_EQ(user_error([&] { lower(program, {.recompute = {Recompute::Full}}); }),
            "the program has R already; leave out recompute, or the R");
}

TEST(Parameters, AreGatheredOneUseAheadAndTwoAtMost) {
  const Program program =
      lower(one_stage(1, 3), {.replicas = 2, .grain = Grain::Segment, .sharing = Sharing::Values});
  EXPECT_EQ(text_of(program.lists[1]),
            "GATHER:0.0 GATHER:0.1 WAIT:GATHER:0.0 0.0F0 FREE:0.0 GATHER:0.2 WAIT:GATHER:0.1 0.1F0 "
            "WAIT:GATHER:0.2 0.2F0 0.2B0 REDUCE:0.2 FREE:0.2 GATHER:0.0 0.1B0 WAIT:REDUCE:0.2 "
            "REDUCE:0.1 FREE:0.1 WAIT:GATHER:0.0 0.0B0 WAIT:REDUCE:0.1 REDUCE:0.0 FREE:0.0 "
            "WAIT:REDUCE:0.0 NORM STEP");
}

TEST(Parameters, AreFreedAfterTheMessageThatOthersWaitFor) {
  const Program program = lower(generate("gpipe", {.devices = 2, .microbatches = 1}),
                                {.replicas = 2, .sharing = Sharing::Values});
  EXPECT_EQ(text_of(program.lists[0]),
            "RECV:0<0 GATHER:0 WAIT:GATHER:0 0F0 SEND:0>0 WAIT:RECV:0<0 WAIT:SEND:0>0 0B0 REDUCE:0 "
            "FREE:0 WAIT:REDUCE:0 NORM STEP");
  EXPECT_EQ(text_of(program.lists[1]),
            "RECV:0>0 WAIT:RECV:0>0 GATHER:1 WAIT:GATHER:1 1F0 1B0 SEND:0<0 REDUCE:1 FREE:1 "
            "WAIT:SEND:0<0 WAIT:REDUCE:1 NORM STEP");
}

TEST(Gradients, AreReducedAfterTheLastOfEachStage) {
  Program program = generate("interleaved", {.devices = 1, .microbatches = 2});
  program.ties = {{.first = 0, .second = 1}};
  EXPECT_EQ(text_of(lower(program, {.replicas = 2}).lists[0]),
            "0F0 1F0 1B0 0F1 0B0 1F1 1B1 REDUCE:1 0B1 REDUCE:0 WAIT:REDUCE:1 WAIT:REDUCE:0 TIE:0 "
            "NORM STEP");
  EXPECT_EQ(text_of(lower(program, {.replicas = 2, .sharing = Sharing::State}).lists[0]),
            "0F0 1F0 1B0 0F1 0B0 1F1 1B1 REDUCE:1 0B1 REDUCE:0 WAIT:REDUCE:1 WAIT:REDUCE:0 TIE:0 "
            "NORM STEP REFRESH:0 REFRESH:1 WAIT:REFRESH:0 WAIT:REFRESH:1");
  EXPECT_EQ(text_of(lower(program, {.replicas = 2, .sharing = Sharing::Gradients}).lists[0]),
            "0F0 1F0 1B0 0F1 0B0 1F1 1B1 REDUCE:1 0B1 WAIT:REDUCE:1 REDUCE:0 WAIT:REDUCE:0 TIE:0 "
            "NORM STEP REFRESH:0 REFRESH:1 WAIT:REFRESH:0 WAIT:REFRESH:1");
}

TEST(Gradients, AreReducedAfterTheMessageThatOthersWaitFor) {
  const Program program =
      lower(generate("gpipe", {.devices = 2, .microbatches = 1}), {.replicas = 2});
  EXPECT_EQ(text_of(program.lists[3]),
            "RECV:0>0 WAIT:RECV:0>0 1F0 1B0 SEND:0<0 REDUCE:1 WAIT:SEND:0<0 WAIT:REDUCE:1 NORM "
            "STEP");
}

/// How much of a program the verifier can ask for after a pass.
Level level_after(std::string_view pass) {
  if (pass == "replicas" || pass == "recompute") return Level::Compute;
  return pass == "gradients" || pass == "moves" ? Level::Final : Level::Messages;
}

std::string faults_after_each_pass(Program program, const LowerOptions& options) {
  std::string faults;
  for (const Pass& pass : passes()) {
    program = pass.run(std::move(program), options);
    for (const Violation& violation : verify(program, level_after(pass.name)))
      (((faults += pass.name) += ": ") += to_string(program, violation)) += '\n';
  }
  return faults;
}

TEST(Passes, LeaveEveryProgramSound) {
  for (const auto schedule : schedule_names())
    for (int devices = 1; devices <= 5; ++devices)
      for (int microbatches : {1, 3, 8})
        for (int replicas : {1, 2})
          for (Grain grain : {Grain::Stage, Grain::Segment})
            for (Recompute recompute : {Recompute::None, Recompute::Full}) {
              Program program =
                  generate(schedule, {.devices = devices, .microbatches = microbatches});
              for (int stage = 0; stage < program.stages; ++stage)
                program.segments[stage] = 1 + stage % 3;
              program.ties = {{.first = 0, .second = program.stages - 1}};
              // A skip connection, and labels that no gradient comes back for.
              if (program.stages > 2) program.edges.push_back({.from = 0, .to = 2});
              if (program.stages > 3)
                program.edges.push_back({.from = 0, .to = 3, .backward = false});

              EXPECT_EQ(faults_after_each_pass(program,
                                               {.replicas = replicas,
                                                .recompute = std::vector(program.stages, recompute),
                                                .grain = grain,
                                                .sharing = Sharing::Values,
                                                .offload = Offload::Activations,
                                                .moves_beside = 1 + devices % 2}),
                        "")
                  << schedule << ' ' << devices << " x " << microbatches << " x " << replicas;
            }
}

TEST(Passes, AreNamedAndTimed) {
  std::vector<PassTime> times;
  lower(one_stage(1, 1), {}, &times);

  ASSERT_EQ(times.size(), passes().size());
  EXPECT_EQ(times[2].pass, "communication");
  EXPECT_GE(times[2].seconds, 0);
}

TEST(Passes, RefuseWhatIsLoweredAlready) {
  const Program program = lower(one_stage(1, 1), {});
  EXPECT_EQ(user_error([&] { lower(program, {}); }),
            "only a program of F, I, W, B and R can be lowered; this one has more instructions "
            "already");
}

TEST(Moves, LeaveDuringTheNextInstructionAndComeBackDuringTheOneBefore) {
  const Program program = lower(generate("gpipe", {.devices = 1, .microbatches = 4}),
                                {.offload = Offload::Activations});

  EXPECT_EQ(text_of(program.lists[0]),
            "0F0 OUT:0@0 0F1 WAIT:OUT:0@0 OUT:0@1 0F2 WAIT:OUT:0@1 OUT:0@2 IN:0@0 "
            "0F3 WAIT:OUT:0@2 OUT:0@3 IN:0@1 WAIT:IN:0@0 0B0 WAIT:OUT:0@3 IN:0@2 "
            "WAIT:IN:0@1 0B1 IN:0@3 WAIT:IN:0@2 0B2 WAIT:IN:0@3 0B3 NORM STEP");
}

TEST(Moves, HaveAsManyInstructionsBesideThemAsAskedFor) {
  const Program program = lower(generate("gpipe", {.devices = 1, .microbatches = 6}),
                                {.offload = Offload::Activations, .moves_beside = 2});

  EXPECT_EQ(text_of(program.lists[0]),
            "0F0 OUT:0@0 0F1 OUT:0@1 0F2 WAIT:OUT:0@0 OUT:0@2 0F3 WAIT:OUT:0@1 OUT:0@3 IN:0@0 "
            "0F4 WAIT:OUT:0@2 OUT:0@4 IN:0@1 0F5 WAIT:OUT:0@3 OUT:0@5 IN:0@2 "
            "WAIT:IN:0@0 0B0 WAIT:OUT:0@4 IN:0@3 WAIT:IN:0@1 0B1 WAIT:OUT:0@5 IN:0@4 "
            "WAIT:IN:0@2 0B2 IN:0@5 WAIT:IN:0@3 0B3 WAIT:IN:0@4 0B4 WAIT:IN:0@5 0B5 NORM STEP");
}

TEST(StateMoves, KeepOneSegmentOnItsWayInAndOneOnItsWayOut) {
  Program order = generate("gpipe", {.devices = 1, .microbatches = 1});
  order.segments = {4};
  const Program program = lower(order, {.grain = Grain::Segment, .offload = Offload::Optimizer});

  const std::string text = text_of(program.lists[0]);
  EXPECT_EQ(text.substr(text.find("IN:")),
            "IN:0.0 IN:0.1 NORM "
            "WAIT:IN:0.0 STEP:0.0 OUT:0.0 IN:0.2 "
            "WAIT:IN:0.1 STEP:0.1 OUT:0.1 WAIT:OUT:0.0 IN:0.3 "
            "WAIT:IN:0.2 STEP:0.2 OUT:0.2 WAIT:OUT:0.1 "
            "WAIT:IN:0.3 STEP:0.3 OUT:0.3 WAIT:OUT:0.2 WAIT:OUT:0.3");
  EXPECT_EQ(parse_program(to_text(program)), program);
}

}  // namespace
}  // namespace cleave::schedule
