// What messages and collectives take over links that take long, for whoever comes first and last.
#include <tuple>
#include <vector>

#include "plan/time/spans.h"
#include <gtest/gtest.h>

#include "cleave/plan/time/simulator.h"

namespace cleave::plan {
namespace {

using schedule::Instruction;
using schedule::Op;
using schedule::Program;
using testing::find;

constexpr Instruction kForward{.op = Op::Forward, .stage = 0, .microbatch = 0};

/// Device 0 runs F and then the collective, device 1 the collective alone.
Program meeting(const Instruction& collective) {
  Program program;
  program.stages = program.devices = 2;
  program.microbatches = 1;
  program.placement = {{0}, {1}};
  program.segments = {1, 1};
  program.edges = {{.from = 0, .to = 1, .forward_bytes = 10, .backward_bytes = 20}};
  program.ties = {{.first = 0, .second = 1, .bytes = 8}};
  program.lists = {{kForward, collective}, {collective}};
  return program;
}

// Device 0 begins at 2 and comes to NORM at 7, device 1 at 3. The numbers of each take 4 to the
// other, after 1 of work.
TEST(Simulator, WhoComesLastToNormDoesNotWaitForItsWay) {
  const Instruction norm{.op = Op::Norm};
  const Program program = meeting(norm);
  const Costs costs{.stages = {{.forward = 5}, {}}, .norm = 5};

  const Trace trace =
      simulate(program, costs, {.norm_way = 4, .starts = std::vector<double>{2, 3}});

  EXPECT_DOUBLE_EQ(find(trace, 0, SpanKind::Compute, kForward).begin, 2);
  EXPECT_DOUBLE_EQ(find(trace, 0, SpanKind::Collective, norm).end, 8);
  EXPECT_DOUBLE_EQ(find(trace, 1, SpanKind::Wait, norm).begin, 3);
  EXPECT_DOUBLE_EQ(find(trace, 1, SpanKind::Collective, norm).end, 12);
  const Trace at_once = simulate(program, costs, {.starts = std::vector<double>{2, 3}});
  for (const int device : {0, 1})
    EXPECT_DOUBLE_EQ(find(at_once, device, SpanKind::Collective, norm).end, 12);
}

// Devices 0 and 2 come to NORM at 3, 1 and 3 at 7. First 0 and 1 tell each other, and 2 and 3,
// which takes 4; then 0 and 2, and 1 and 3, which are near.
TEST(Simulator, WhoComesLastToNormWaitsForNobodyNearby) {
  const Instruction norm{.op = Op::Norm};
  Program program = meeting(norm);
  program.devices = program.stages = 4;
  program.placement = {{0}, {1}, {2}, {3}};
  program.segments = {1, 1, 1, 1};
  program.lists.assign(4, {norm});
  const Costs costs{.stages = std::vector<StageCosts>(4), .norm = 6};
  const std::vector<std::vector<Hearing>> rounds = {{{1, 4}, {0, 4}, {3, 4}, {2, 4}},
                                                    {{2, 1}, {3, 1}, {0, 1}, {1, 1}}};

  const Trace trace =
      simulate(program, costs,
               {.norm_way = 5, .norm_rounds = rounds, .starts = std::vector<double>{3, 7, 3, 7}});

  for (const int last : {1, 3})
    EXPECT_DOUBLE_EQ(find(trace, last, SpanKind::Collective, norm).end, 9);
  for (const int first : {0, 2})
    EXPECT_DOUBLE_EQ(find(trace, first, SpanKind::Collective, norm).end, 13);
}

// Device 0 comes to TIE at 7. Device 1 comes at 3, or at 6: too late to have told its share by 7.
TEST(Simulator, WhoComesFirstToTieWaitsForOneOfItsWays) {
  const Instruction tie{.op = Op::Tie, .edge = 0};
  const Costs costs{.stages = {{.forward = 5}, {}}, .ties = {4}};
  for (const auto& [start, way, end] :
       {std::tuple(3.0, 1.0, 9.0), std::tuple(6.0, 1.0, 10.0), std::tuple(3.0, 0.0, 11.0)}) {
    const Trace trace =
        simulate(meeting(tie), costs, {.norm_way = way, .starts = std::vector<double>{2, start}});

    EXPECT_DOUBLE_EQ(find(trace, 0, SpanKind::Collective, tie).end, 11);
    EXPECT_DOUBLE_EQ(find(trace, 1, SpanKind::Collective, tie).end, end);
  }
}

// Device 0 sends 10 B and waits for its send, whose receive device 1 has posted at the beginning;
// the message takes 2. It does not wait if all messages of a step may leave early, and the link is
// long.
TEST(Simulator, ASendThatIsCopiedIsCompleteAtOnce) {
  const auto of_message = [](Op op, Op completes) {
    return Instruction{.op = op, .completes = completes, .microbatch = 0, .edge = 0};
  };
  const Instruction send = of_message(Op::Send, {}), receive = of_message(Op::Receive, {});
  Program program = meeting({.op = Op::Norm});
  program.lists = {{send, of_message(Op::Wait, Op::Send), kForward},
                   {receive, of_message(Op::Wait, Op::Receive)}};
  Costs costs{.stages = {{.forward = 5}, {}}};
  for (const auto& [early_bytes, latency, begin] :
       {std::tuple(20, 2.0, 0.0), std::tuple(19, 2.0, 5.0), std::tuple(20, 0.0004, 0.0004)}) {
    costs.edges = {{.latency = latency, .credit = 3}};
    const Trace trace = simulate(program, costs, {.early_bytes = early_bytes});
    EXPECT_DOUBLE_EQ(find(trace, 0, SpanKind::Compute, kForward).begin, begin);
  }
}

}  // namespace
}  // namespace cleave::plan
