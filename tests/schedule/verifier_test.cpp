#include "cleave/schedule/verifier.h"

#include "schedule/written.h"
#include <gtest/gtest.h>

#include "cleave/schedule/forward_only.h"
#include "cleave/schedule/generators.h"

namespace cleave::schedule {
namespace {

using testing::chain;
using testing::written;

// All violations, one per line.
std::string verdict(const Program& program, Level level = Level::Final) {
  std::string text;
  for (const Violation& v : verify(program, level)) text += to_string(program, v) + "\n";
  return text;
}

// Two stages, two microbatches, GPipe with explicit messages.
Program two_stages() {
  return chain(2, {"0F0 SEND:0>0 0F1 SEND:0>1 RECV:0<0 WAIT:RECV:0<0 WAIT:SEND:0>0 0B0 "
                   "RECV:0<1 WAIT:RECV:0<1 WAIT:SEND:0>1 0B1 NORM STEP",
                   "RECV:0>0 WAIT:RECV:0>0 1F0 RECV:0>1 WAIT:RECV:0>1 1F1 1B0 SEND:0<0 "
                   "1I1 SEND:0<1 WAIT:SEND:0<0 1W1 WAIT:SEND:0<1 NORM STEP"});
}

void replace(Program& program, int device, const std::string& list) {
  program.lists[device] = written(list);
}

TEST(Verifier, AcceptsASoundProgram) {
  EXPECT_EQ(verdict(two_stages()), "");
}

TEST(Verifier, NamesDeviceInstructionAndReason) {
  Program program = chain(2, {"0F0 0F0 0F1 0B0 0W1 0I1 STEP"});
  EXPECT_EQ(verdict(program),
            "device 0, instruction 1 (0F0): runs a second time\n"
            "device 0, instruction 4 (0W1): runs before the backward_input it needs\n");
}

TEST(Verifier, CountsWhatComesOutOfOrder) {
  EXPECT_EQ(verdict(chain(2, {"0F0 0F1 0I0 0I1 0W1 0W0 STEP"})),
            "device 0, instruction 4 (0W1): runs before microbatch 0; W of a stage goes in "
            "microbatch order\n"
            "device 0, instruction 5 (0W0): runs after a later microbatch; W of a stage goes in "
            "microbatch order\n");
}

TEST(Verifier, PrintsTheCycleOfADeadlock) {
  // Both ends insist on completing a SEND first: works only if messages are buffered.
  Program crossed = two_stages();
  replace(crossed, 0,
          "0F0 SEND:0>0 0F1 SEND:0>1 WAIT:SEND:0>1 RECV:0<0 WAIT:RECV:0<0 WAIT:SEND:0>0 0B0 "
          "RECV:0<1 WAIT:RECV:0<1 0B1 STEP");
  replace(crossed, 1,
          "RECV:0>0 WAIT:RECV:0>0 1F0 1B0 SEND:0<0 WAIT:SEND:0<0 RECV:0>1 WAIT:RECV:0>1 1F1 "
          "1B1 SEND:0<1 WAIT:SEND:0<1 STEP");
  EXPECT_EQ(verdict(crossed),
            "device 0, instruction 4 (WAIT:SEND:0>1): deadlock: "
            "device 0 at instruction 4 (WAIT:SEND:0>1) waits for device 1 to run instruction 6 "
            "(RECV:0>1); device 1 at instruction 5 (WAIT:SEND:0<0) waits for device 0 to run "
            "instruction 5 (RECV:0<0)\n");
}

TEST(Verifier, WantsEveryMessageOnBothSidesAndInOrder) {
  Program program = two_stages();
  replace(program, 1,
          "RECV:0>0 WAIT:RECV:0>0 1F0 1F1 RECV:0>1 WAIT:RECV:0>1 1B0 SEND:0<0 "
          "1I1 SEND:0<1 1W1 WAIT:SEND:0<1 NORM STEP");
  EXPECT_EQ(verdict(program),
            "device 1, instruction 7 (SEND:0<0): the WAIT for SEND:0<0 is missing\n"
            "device 1, instruction 3 (1F1): runs before RECV:0>1 is waited for (instruction 5)\n");
}

TEST(Verifier, WantsGradientsReducedTiedAndStepped) {
  Program program;
  program.stages = program.devices = program.replicas = 2;
  program.microbatches = 1;
  program.placement = {{0, 1}, {0, 1}};
  program.segments = {1, 2};
  program.edges = {{.from = 0, .to = 1}};
  program.ties = {{.first = 0, .second = 1}};
  const std::string good =
      "0F0 1.0F0 1.1F0 1.1B0 REDUCE:1.1 1.0B0 0B0 WAIT:REDUCE:1.1 REDUCE:1.0 REDUCE:0 "
      "WAIT:REDUCE:0 WAIT:REDUCE:1.0 TIE:0 NORM STEP";
  program.lists = {written(good), written(good)};
  EXPECT_EQ(verdict(program), "");

  const std::string early =
      "0F0 1.0F0 1.1F0 1.1B0 1.0B0 0B0 REDUCE:1.1 REDUCE:1.0 REDUCE:0 WAIT:REDUCE:1.1 "
      "WAIT:REDUCE:0 TIE:0 WAIT:REDUCE:1.0 NORM STEP";
  program.lists = {written(early), written(early)};
  EXPECT_EQ(verdict(program),
            "device 0, instruction 11 (TIE:0): comes before the gradient of stage 1 is complete "
            "(instruction 12)\n"
            "device 1, instruction 11 (TIE:0): comes before the gradient of stage 1 is complete "
            "(instruction 12)\n");

  // What one replica posts first is one sum with what the other posts first.
  program.lists = {written(good),
                   written("0F0 1.0F0 1.1F0 1.1B0 1.0B0 0B0 REDUCE:1.0 REDUCE:1.1 REDUCE:0 "
                           "WAIT:REDUCE:0 WAIT:REDUCE:1.0 WAIT:REDUCE:1.1 TIE:0 NORM STEP")};
  EXPECT_EQ(verdict(program),
            "device 1, instruction 6 (REDUCE:1.0): is posted where device 0 posts REDUCE:1.1\n");

  program.lists = {written(good), written("0F0 1.0F0 1.1F0 1.1B0 REDUCE:1.1 1.0B0 0B0 "
                                          "WAIT:REDUCE:1.1 REDUCE:0 TIE:0 NORM")};
  EXPECT_EQ(verdict(program),
            "device 1, instruction 8 (REDUCE:0): the WAIT for REDUCE:0 is missing\n"
            "device 1: REDUCE:1.0 is missing; device 0 posts it\n"
            "device 1: the gradient of stage 1 is not reduced over its 2 replicas in 1 of its "
            "segments\n"
            "device 1: STEP is missing\n");
}

TEST(Verifier, WantsSharesOfAnUpdateExchanged) {
  Program program;
  program.stages = program.microbatches = 1;
  program.devices = program.replicas = 2;
  program.placement = {{0, 1}};
  program.segments = {1};
  program.sharing = {Sharing::State};
  const std::string good = "0F0 0B0 REDUCE:0 WAIT:REDUCE:0 NORM STEP REFRESH:0 WAIT:REFRESH:0";
  program.lists = {written(good), written(good)};
  EXPECT_EQ(verdict(program), "");

  program.lists = {written("0F0 0B0 REDUCE:0 WAIT:REDUCE:0 NORM REFRESH:0 WAIT:REFRESH:0 STEP"),
                   written("0F0 0B0 REDUCE:0 WAIT:REDUCE:0 NORM STEP")};
  EXPECT_EQ(verdict(program),
            "device 1: REFRESH:0 is missing; device 0 posts it\n"
            "device 0, instruction 5 (REFRESH:0): comes before STEP has updated anything\n"
            "device 1: REFRESH:0 is missing\n");
  program.sharing.clear();
  program.lists = {written(good), written(good)};
  EXPECT_EQ(verify(program)[0].reason, "every replica has updated all parameters of stage 0");
}

TEST(Verifier, WantsParametersGatheredWhileUsed) {
  Program program = chain(1, {"GATHER:0 WAIT:GATHER:0 0F0 FREE:0 GATHER:0 WAIT:GATHER:0 0I0 "
                              "FREE:0 0W0 STEP"});
  program.sharing = {Sharing::Values};
  EXPECT_EQ(verdict(program), "");

  replace(program, 0, "GATHER:0 0F0 WAIT:GATHER:0 FREE:0 0I0 GATHER:0 WAIT:GATHER:0 0W0 STEP");
  EXPECT_EQ(verdict(program),
            "device 0, instruction 1 (0F0): runs while the parameters of stage 0 are not gathered\n"
            "device 0, instruction 4 (0I0): runs while the parameters of stage 0 are not gathered\n"
            "device 0: the gathered parameters of stage 0 are never freed\n");
}

TEST(Verifier, AllowsRecomputeBetweenForwardAndBackward) {
  Program program = chain(1, {"0F0 0R0 0B0 STEP"});
  EXPECT_EQ(verdict(program), "");
  replace(program, 0, "0R0 0F0 0I0 0R0 0W0 STEP");
  EXPECT_EQ(verdict(program),
            "device 0, instruction 0 (0R0): runs before the forward it repeats\n"
            "device 0, instruction 3 (0R0): runs after the backward it is for\n"
            "device 0, instruction 3 (0R0): runs a second time\n");
}

TEST(Verifier, ChecksComputeOnlyProgramsWithImpliedMessages) {
  Program program = chain(2, {"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"});
  EXPECT_TRUE(verify_compute(program).empty());
  EXPECT_NE(verdict(program), "");

  replace(program, 0, "0F0 0B0 0F1 0B1");
  replace(program, 1, "1F0 1F1 1B0 1B1");
  EXPECT_EQ(verdict(program, Level::Compute),
            "device 0, instruction 1 (0B0): deadlock: device 0 at instruction 1 (0B0) waits for "
            "device 1 to run instruction 2 (1B0); device 1 at instruction 1 (1F1) waits for "
            "device 0 to run instruction 2 (0F1)\n");
}

TEST(Verifier, ChecksProgramsThatOnlyEvaluate) {
  Program program = chain(2, {"0F0 SEND:0>0 0F1 SEND:0>1 WAIT:SEND:0>0 WAIT:SEND:0>1",
                              "RECV:0>0 WAIT:RECV:0>0 1F0 RECV:0>1 WAIT:RECV:0>1 1F1"});
  program.edges[0].backward = false;
  EXPECT_EQ(verdict(program, Level::Forward), "");
  EXPECT_NE(verdict(program, Level::Final), "");

  program.lists[1].pop_back();
  EXPECT_EQ(verdict(program, Level::Forward), "device 1: F of stage 1, microbatch 1 is missing\n");
  program.lists[1].push_back({.op = Op::Backward, .stage = 1, .microbatch = 1});
  EXPECT_EQ(verdict(program, Level::Forward),
            "device 1, instruction 5 (1B1): is not for a forward pass\n");
}

TEST(Verifier, AcceptsTheEvaluationOfEverySchedule) {
  for (const auto name : schedule_names()) {
    const Program training = generate(name, {.devices = 3, .microbatches = 6});
    const Program program = forward_only(training, 4, {.replicas = 2});
    EXPECT_EQ(verdict(program, Level::Forward), "") << name;
  }
}

TEST(Verifier, RefusesABoastfulHeaderWithoutMakingTables) {
  Program program = chain(1, {"0F0 0B0 STEP"});
  program.microbatches = 2'000'000'000;
  EXPECT_EQ(verdict(program),
            "program: has 3 instructions; 1 stages x 1 replicas x 2000000000 microbatches need at "
            "least one each\n");
  program.devices = -3;
  EXPECT_NE(verdict(program), "");
}

// Stage 0 on device 0, one microbatch; kept 64 bytes for I and 64 for W.
Program with_buffers() {
  Program program = chain(1, {"0F0 0I0 0W0 STEP"});
  program.buffers = {
      {.kind = BufferKind::Weights, .stage = 0, .bytes = 64, .first = 0, .last = 3, .offset = 0},
      {.kind = BufferKind::KeptForInput,
       .stage = 0,
       .microbatch = 0,
       .bytes = 64,
       .first = 0,
       .last = 1,
       .offset = 64},
      {.kind = BufferKind::KeptForWeight,
       .stage = 0,
       .microbatch = 0,
       .bytes = 64,
       .first = 0,
       .last = 2,
       .offset = 128},
      {.kind = BufferKind::InputKept,
       .stage = 0,
       .microbatch = 0,
       .bytes = 64,
       .first = 1,
       .last = 2,
       .offset = 192}};
  program.budgets = {256};
  return program;
}

TEST(Verifier, AcceptsBuffersThatLiveWhileUsed) {
  EXPECT_EQ(verdict(with_buffers()), "");
}

TEST(Verifier, RefusesBuffersThatDieTooEarly) {
  Program program = with_buffers();
  program.buffers[2].last = 1;
  EXPECT_EQ(verdict(program),
            "device 0, instruction 0 (0F0): buffer kept-for-weight of stage 0, microbatch 0 lives "
            "from 0 to 1, but is used from 0 to 2\n");
}

TEST(Verifier, RefusesBuffersThatShareBytesOrLeaveTheBudget) {
  Program program = with_buffers();
  program.buffers[3].offset = 64;  // KeptForInput dies at I, which writes InputKept
  EXPECT_EQ(verdict(program),
            "device 0, instruction 1 (0I0): two live buffers overlap: bytes 64 to 128 (from "
            "instruction 1) and 64 to 128 (from instruction 0 to 1)\n");
  program = with_buffers();
  program.budgets = {255};
  EXPECT_EQ(verdict(program),
            "device 0, instruction 1 (0I0): a buffer of 64 bytes at 192 ends beyond the device's "
            "budget of 255 bytes\n");
}

TEST(Verifier, WantsWhatMovedOutBackBeforeItIsRead) {
  const std::string sound = "0F0 OUT:0@0 0F1 WAIT:OUT:0@0 IN:0@0 WAIT:IN:0@0 0B0 0B1 STEP";
  EXPECT_EQ(verdict(chain(2, {sound})), "");
  EXPECT_EQ(verdict(chain(2, {"0F0 OUT:0@0 0F1 WAIT:OUT:0@0 IN:0@0 0B0 WAIT:IN:0@0 0B1 STEP"})),
            "device 0, instruction 5 (0B0): runs before what it reads has come back "
            "(instruction 6)\n");
  EXPECT_EQ(verdict(chain(2, {"0F0 OUT:0@0 0F1 IN:0@0 WAIT:OUT:0@0 WAIT:IN:0@0 0B0 0B1 STEP"})),
            "device 0, instruction 3 (IN:0@0): comes before instruction 4 (WAIT:OUT:0@0)\n");
  EXPECT_EQ(verdict(chain(2, {"OUT:0@0 0F0 0F1 WAIT:OUT:0@0 IN:0@0 WAIT:IN:0@0 0B0 0B1 STEP"})),
            "device 0, instruction 0 (OUT:0@0): is posted before F (instruction 1) made what it "
            "moves\n");
  EXPECT_EQ(verdict(chain(2, {"0F0 OUT:0@0 0F1 WAIT:OUT:0@0 0B0 0B1 STEP"})),
            "device 0: IN:0@0 is missing\n");
}

TEST(Verifier, WantsStateInsideForItsPartOfTheUpdateAndOutsideAfterIt) {
  const std::string sound = "0F0 0B0 IN:0 NORM WAIT:IN:0 STEP:0 OUT:0 WAIT:OUT:0";
  EXPECT_EQ(verdict(chain(1, {sound})), "");
  EXPECT_EQ(verdict(chain(1, {"0F0 0B0 IN:0 NORM STEP:0 WAIT:IN:0 OUT:0 WAIT:OUT:0"})),
            "device 0, instruction 4 (STEP:0): updates state before it has come (instruction 5)\n");
  EXPECT_EQ(verdict(chain(1, {"0F0 0B0 IN:0 NORM WAIT:IN:0 OUT:0 STEP:0 WAIT:OUT:0"})),
            "device 0, instruction 6 (STEP:0): updates state after it has left (instruction 5)\n");
  EXPECT_EQ(verdict(chain(1, {"0F0 0B0 IN:0 NORM WAIT:IN:0 STEP:0"})),
            "device 0: OUT:0 is missing\n");
  EXPECT_EQ(verdict(chain(1, {"0F0 0B0 IN:0 NORM WAIT:IN:0 OUT:0 WAIT:OUT:0"})),
            "device 0: STEP is missing\ndevice 0, instruction 2 (IN:0): brings in what no STEP "
            "updates\n");
  EXPECT_EQ(verdict(chain(1, {"0F0 0B0 NORM STEP:0 STEP"})),
            "device 0, instruction 4 (STEP): updates again what instruction 3 updated\n");
  EXPECT_EQ(verdict(chain(1, {"0F0 0B0 STEP:0 NORM"})),
            "device 0, instruction 2 (STEP:0): comes before NORM (instruction 3)\n");
}

}  // namespace
}  // namespace cleave::schedule
