#include "cleave/plan/time/simulator.h"

#include <algorithm>
#include <tuple>

#include "plan/time/spans.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/schedule/generators.h"

namespace cleave::plan {
namespace {

using schedule::Direction;
using schedule::Instruction;
using schedule::Op;
using schedule::Program;
using testing::find;

Instruction compute(Op op, int stage, int microbatch) {
  return {.op = op, .stage = stage, .microbatch = microbatch};
}

Instruction message(Op op, Direction direction, int microbatch) {
  return {.op = op, .direction = direction, .microbatch = microbatch, .edge = 0};
}

Instruction wait(Op completes, Direction direction, int microbatch) {
  return {.op = Op::Wait,
          .completes = completes,
          .direction = direction,
          .microbatch = microbatch,
          .edge = 0};
}

// Two devices, one stage each, one edge of 10 bytes forward and 20 back; lists to be filled in.
Program pair_of_devices(int microbatches) {
  Program program;
  program.stages = program.devices = 2;
  program.microbatches = microbatches;
  program.placement = {{0}, {1}};
  program.segments = {1, 1};
  program.edges = {{.from = 0, .to = 1, .forward_bytes = 10, .backward_bytes = 20}};
  program.lists.resize(2);
  return program;
}

TEST(Simulator, OneFOneBCostsItsClosedFormOverAllShapes) {
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 24; ++m) {
      const Program program = schedule::generate("1f1b", {.devices = p, .microbatches = m});
      const Costs costs = uniform_costs(program, {.f = 2, .i = 3, .w = 4});

      const Summary summary = summarise(program, simulate(program, costs));

      // Every device runs m(F + B); the first also waits for p - 1 forwards and backwards.
      EXPECT_DOUBLE_EQ(summary.cost, (m + p - 1) * 9) << p << " x " << m;
      EXPECT_DOUBLE_EQ(summary.work, m * 9);
    }
}

TEST(Simulator, ImpliedMessageLeavesWhenItsProducerEnds) {
  Program program = pair_of_devices(1);
  for (int s = 0; s < 2; ++s)
    program.lists[s] = {compute(Op::Forward, s, 0), compute(Op::BackwardInput, s, 0),
                        compute(Op::BackwardWeight, s, 0)};
  Costs costs = uniform_costs(program, {.f = 1, .i = 2, .w = 4});
  costs.edges = {{.latency = 0.5, .per_byte = 0.1}};

  const Trace trace = simulate(program, costs);

  EXPECT_DOUBLE_EQ(find(trace, 1, SpanKind::Compute, compute(Op::Forward, 1, 0)).begin, 2.5);
  EXPECT_DOUBLE_EQ(find(trace, 1, SpanKind::Wait, compute(Op::Forward, 1, 0)).end, 2.5);
  // I of device 1 ends at 5.5 and its message takes 0.5 + 20 * 0.1.
  EXPECT_DOUBLE_EQ(find(trace, 0, SpanKind::Compute, compute(Op::BackwardInput, 0, 0)).begin, 8);
  EXPECT_DOUBLE_EQ(summarise(program, trace).devices[0].wait, 7);
}

TEST(Simulator, MessageStartsOnlyWhenBothEndsArePosted) {
  Program program = pair_of_devices(1);
  const Direction forward = Direction::Forward;
  program.lists[0] = {compute(Op::Forward, 0, 0), message(Op::Send, forward, 0),
                      wait(Op::Send, forward, 0), compute(Op::BackwardWeight, 0, 0)};
  program.lists[1] = {compute(Op::BackwardWeight, 1, 0), message(Op::Receive, forward, 0),
                      wait(Op::Receive, forward, 0), compute(Op::Forward, 1, 0)};
  Costs costs = uniform_costs(program, {.f = 1, .i = 1, .w = 5});
  costs.edges = {{.latency = 2, .per_byte = 0}};

  const Trace trace = simulate(program, costs);

  EXPECT_DOUBLE_EQ(find(trace, 0, SpanKind::Transfer, program.lists[0][1]).begin, 5);
  EXPECT_EQ(find(trace, 0, SpanKind::Transfer, program.lists[0][1]).peer, 1);
  EXPECT_DOUBLE_EQ(find(trace, 0, SpanKind::Wait, program.lists[0][2]).begin, 1);
  EXPECT_DOUBLE_EQ(find(trace, 0, SpanKind::Wait, program.lists[0][2]).end, 7);
  EXPECT_DOUBLE_EQ(find(trace, 1, SpanKind::Compute, compute(Op::Forward, 1, 0)).begin, 7);
}

TEST(Simulator, AMessageThroughTheHostMovesOutTravelsAndMovesIn) {
  Program program = pair_of_devices(1);
  program.through_host = {0, 1};
  program.lists[0] = {compute(Op::Forward, 0, 0), message(Op::Out, Direction::Forward, 0),
                      message(Op::Send, Direction::Forward, 0),
                      wait(Op::Send, Direction::Forward, 0)};
  program.lists[1] = {message(Op::Receive, Direction::Forward, 0),
                      message(Op::In, Direction::Forward, 0),
                      wait(Op::Receive, Direction::Forward, 0), compute(Op::Forward, 1, 0)};
  const Costs costs{.stages = {{.forward = 4}, {.forward = 3}},
                    .edges = {{.latency = 1, .per_byte = 0.5}},
                    .outside = {{.per_byte = 0.2}, {.latency = 1, .per_byte = 0.1}}};

  const Trace trace = simulate(program, costs);

  const Span& out = find(trace, 0, SpanKind::Transfer, message(Op::Out, Direction::Forward, 0));
  EXPECT_DOUBLE_EQ(out.begin, 4);
  EXPECT_DOUBLE_EQ(out.end, 6);
  EXPECT_EQ(out.peer, 0);
  EXPECT_DOUBLE_EQ(find(trace, 0, SpanKind::Transfer, message(Op::Send, Direction::Forward, 0)).end,
                   12);
  const Span& in = find(trace, 1, SpanKind::Transfer, message(Op::In, Direction::Forward, 0));
  EXPECT_DOUBLE_EQ(in.begin, 12);
  EXPECT_DOUBLE_EQ(in.end, 14);
  EXPECT_DOUBLE_EQ(find(trace, 1, SpanKind::Compute, compute(Op::Forward, 1, 0)).begin, 14);
}

// Credit that is under way when the message is ready holds it up by what is left of its way only.
TEST(Simulator, MessageWaitsForTheCreditOfItsReceiver) {
  Program program = pair_of_devices(1);
  const Instruction send = message(Op::Send, Direction::Forward, 0);
  program.lists[0] = {compute(Op::Forward, 0, 0), send, wait(Op::Send, Direction::Forward, 0)};
  program.lists[1] = {message(Op::Receive, Direction::Forward, 0),
                      wait(Op::Receive, Direction::Forward, 0), compute(Op::Forward, 1, 0)};
  Costs costs = uniform_costs(program, {.f = 1, .i = 1, .w = 1});
  for (const auto& [credit, begin] :
       {std::pair(0.0, 1.0), std::pair(0.5, 1.0), std::pair(4.0, 4.0)}) {
    costs.edges = {{.latency = 2, .per_byte = 0, .credit = credit}};
    const Trace trace = simulate(program, costs);
    const Span& transfer = find(trace, 0, SpanKind::Transfer, send);
    EXPECT_DOUBLE_EQ(transfer.begin, begin);
    EXPECT_DOUBLE_EQ(transfer.end, begin + 2);
  }
}

// Device 1 posts its receive at 5, and the message is ready at 1; the way back has 20 B.
TEST(Simulator, MessagesThatNeedNoCreditLeaveWhenTheyAreSent) {
  Program program = pair_of_devices(1);
  const Instruction send = message(Op::Send, Direction::Forward, 0);
  program.lists[0] = {compute(Op::Forward, 0, 0), send, wait(Op::Send, Direction::Forward, 0)};
  program.lists[1] = {compute(Op::BackwardWeight, 1, 0),
                      message(Op::Receive, Direction::Forward, 0),
                      wait(Op::Receive, Direction::Forward, 0), compute(Op::Forward, 1, 0)};
  Costs costs = uniform_costs(program, {.f = 1, .i = 0, .w = 5});
  for (const auto& [early_bytes, credit, begin] :
       {std::tuple(20, 3.0, 1.0), std::tuple(19, 3.0, 8.0), std::tuple(20, 0.0, 5.0)}) {
    costs.edges = {{.latency = 2, .per_byte = 0, .credit = credit}};
    const Trace trace = simulate(program, costs, {.early_bytes = early_bytes});
    EXPECT_DOUBLE_EQ(find(trace, 0, SpanKind::Transfer, send).begin, begin);
    EXPECT_DOUBLE_EQ(find(trace, 1, SpanKind::Compute, compute(Op::Forward, 1, 0)).begin,
                     std::max(5.0, begin + 2));
  }
}

TEST(Simulator, AMessageHasTheLinkToItselfUnlessLinksAreSerialised) {
  Program program = pair_of_devices(3);
  for (int m = 0; m < 3; ++m)
    for (int s = 0; s < 2; ++s) program.lists[s].push_back(compute(Op::Forward, s, m));
  Costs costs = uniform_costs(program, {.f = 1, .i = 1, .w = 1});
  costs.edges = {{.latency = 0, .per_byte = 0.3}};  // three times as long as F

  EXPECT_DOUBLE_EQ(makespan(simulate(program, costs)), 7);
  const SimulateOptions serialised{.links = Links::Serialised};
  EXPECT_DOUBLE_EQ(makespan(simulate(program, costs, serialised)), 11);
  costs.edges = {{.latency = 5, .per_byte = 0.3}};  // which all of them are on at the same time
  EXPECT_DOUBLE_EQ(makespan(simulate(program, costs, serialised)), 16);
}

TEST(Simulator, CollectiveStartsWithItsLastMember) {
  Program program = pair_of_devices(1);
  program.edges.clear();
  const Instruction norm{.op = Op::Norm};
  const Instruction step{.op = Op::Step};
  program.lists[0] = {compute(Op::Forward, 0, 0), norm, step};
  program.lists[1] = {norm, step};
  Costs costs = uniform_costs(program, {.f = 4});
  costs.norm = 2;
  costs.steps = {1, 3};

  const Trace trace = simulate(program, costs);

  EXPECT_DOUBLE_EQ(find(trace, 1, SpanKind::Wait, norm).end, 4);
  EXPECT_DOUBLE_EQ(find(trace, 1, SpanKind::Collective, norm).begin, 4);
  EXPECT_DOUBLE_EQ(find(trace, 0, SpanKind::Update, step).end, 7);
  EXPECT_DOUBLE_EQ(summarise(program, trace).makespan, 9);
}

TEST(Simulator, ReplicasReduceTogetherAndTiesPairUpWithinAReplica) {
  Program program = pair_of_devices(1);
  program.edges.clear();
  program.replicas = 2;
  program.devices = 4;
  program.placement = {{0, 2}, {1, 3}};
  program.ties = {{.first = 0, .second = 1, .bytes = 8}};
  program.lists.assign(4, {});
  for (int d = 0; d < 4; ++d)
    program.lists[d] = {{.op = Op::Reduce, .stage = d % 2},
                        {.op = Op::Wait, .completes = Op::Reduce, .stage = d % 2},
                        {.op = Op::Tie, .edge = 0}};
  program.lists[3].insert(program.lists[3].begin(), compute(Op::Forward, 1, 0));
  Costs costs = uniform_costs(program, {.f = 10});
  costs.stages[0].reduce = costs.stages[1].reduce = 1;
  costs.ties = {1};

  const Trace trace = simulate(program, costs);

  // Of stage 0 from 0 on, of stage 1 from 10 on.
  EXPECT_DOUBLE_EQ(find(trace, 0, SpanKind::Wait, program.lists[0][1]).end, 1);
  EXPECT_DOUBLE_EQ(find(trace, 1, SpanKind::Wait, program.lists[1][1]).end, 11);
  EXPECT_DOUBLE_EQ(find(trace, 2, SpanKind::Collective, program.lists[2][2]).begin, 11);
}

TEST(Simulator, DevicesThatShareOneCoreTakeTurns) {
  Program program = pair_of_devices(1);
  program.edges.clear();
  program.lists = {{compute(Op::Forward, 0, 0), compute(Op::BackwardWeight, 0, 0)},
                   {compute(Op::Forward, 1, 0)}};
  const Costs costs{.stages = {{.forward = 2, .weight = 3}, {.forward = 4}}};

  const Trace shared = simulate(program, costs, {.at_once = 1});

  // Device 0 keeps the core for F and W; device 1 queues until it has nothing more to do.
  ASSERT_EQ(shared.spans.size(), 3u);
  EXPECT_DOUBLE_EQ(shared.spans[0].end, 2);
  EXPECT_EQ(shared.spans[1].device, 0);
  EXPECT_DOUBLE_EQ(shared.spans[1].begin, 2);
  EXPECT_DOUBLE_EQ(shared.spans[1].end, 5);
  EXPECT_DOUBLE_EQ(shared.spans[2].begin, 5);
  EXPECT_DOUBLE_EQ(shared.spans[2].end, 9);
}

TEST(Simulator, EnoughCoresChangeNothing) {
  const Program program = schedule::generate("zbv", {.devices = 4, .microbatches = 7});
  const Costs costs = uniform_costs(program, {.comm = 0.25});

  EXPECT_DOUBLE_EQ(summarise(program, simulate(program, costs)).makespan,
                   summarise(program, simulate(program, costs, {.at_once = 4})).makespan);
}

TEST(Simulator, ReportsADeadlockInsteadOfLooping) {
  Program program = pair_of_devices(1);
  const Direction forward = Direction::Forward;
  program.lists[0] = {message(Op::Send, forward, 0), wait(Op::Send, forward, 0)};
  program.lists[1] = {wait(Op::Receive, forward, 0), message(Op::Receive, forward, 0)};

  try {
    simulate(program, uniform_costs(program, {}));
    FAIL() << "a deadlock went unnoticed";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "the program deadlocks: device 0 waits for ever at WAIT:SEND:0>0 (instruction 1 "
                 "of 2); `cleave verify` prints the cycle");
  }
}

TEST(Simulator, ReportsACollectiveThatAMemberNeverEnters) {
  Program program = pair_of_devices(1);
  program.lists[1] = {{.op = Op::Norm}};
  EXPECT_THROW(simulate(program, uniform_costs(program, {})), UserError);
}

TEST(Costs, RefuseNumbersThatAreNoTimes) {
  const Program program = schedule::generate("1f1b", {.devices = 2, .microbatches = 2});
  Costs costs = uniform_costs(program, {});
  costs.stages[1].weight = -1;
  EXPECT_THROW(simulate(program, costs), UserError);
  costs = uniform_costs(program, {});
  costs.stages.pop_back();
  EXPECT_THROW(simulate(program, costs), UserError);
}

// A stage of two segments: F takes 1 and 3 of 4 instead of 2 each, where that is said.
TEST(Costs, OfSegmentsAreEqualSharesUnlessTheyAreGiven) {
  Program program = schedule::generate("1f1b", {.devices = 1, .microbatches = 1});
  program.segments = {2};
  Costs costs{.stages = {{.forward = 4}}};
  const Instruction second{.op = Op::Forward, .stage = 0, .segment = 1};
  EXPECT_EQ(duration(program, costs, 0, second), 2);
  costs.segments = {{{.forward = 1}, {.forward = 3}}};
  EXPECT_EQ(duration(program, costs, 0, second), 3);
  EXPECT_EQ(duration(program, costs, 0, {.op = Op::Forward, .stage = 0}), 4);
  costs.segments[0].pop_back();
  EXPECT_THROW(check(program, costs), UserError);
}

}  // namespace
}  // namespace cleave::plan
