// What messages take on ways that they share, and on links that let some of a message pass at once.
#include <vector>

#include "plan/time/spans.h"
#include <gtest/gtest.h>

#include "cleave/plan/time/simulation/shared_ways.h"
#include "cleave/plan/time/simulator.h"

namespace cleave::plan {
namespace {

using schedule::Instruction;
using schedule::Op;
using schedule::Program;
using simulation::SharedWays;
using testing::find;

constexpr std::int64_t kBytes = 1000;
constexpr double kPerByte = 0.01, kLatency = 3;

Instruction of_message(Op op, Op completes, int microbatch) {
  return {.op = op, .completes = completes, .microbatch = microbatch, .edge = 0};
}

/// Two replicas of two stages. In each the first device sends so many messages at the beginning,
/// device 0 to 1 and device 2 to 3, and the second waits for all of them.
Program two_senders(int messages) {
  Program program;
  program.stages = program.replicas = 2;
  program.devices = 4;
  program.microbatches = messages;
  program.placement = {{0, 2}, {1, 3}};
  program.segments = {1, 1};
  program.edges = {{.from = 0, .to = 1, .forward_bytes = kBytes, .backward_bytes = kBytes}};
  program.lists.resize(4);
  for (int m = 0; m < messages; ++m) {
    for (const int sender : {0, 2}) program.lists[sender].push_back(of_message(Op::Send, {}, m));
    for (const int receiver : {1, 3}) {
      program.lists[receiver].push_back(of_message(Op::Receive, {}, m));
      program.lists[receiver].push_back(of_message(Op::Wait, Op::Receive, m));
    }
  }
  return program;
}

/// When device `receiver` has message `m`, with all messages sent whether they are waited for or
/// not.
double arrival(const Program& program, const LinkCosts& link, int receiver, int m) {
  const Costs costs{.stages = {{}, {}}, .edges = {link}};
  const Trace trace =
      simulate(program, costs, {.links = Links::Serialised, .early_bytes = 1 << 20});
  return find(trace, receiver, SpanKind::Wait, of_message(Op::Wait, Op::Receive, m)).end;
}

TEST(SharedLinks, TwoSendersTakeTwiceAsLongAsOne) {
  const Program program = two_senders(1);
  const LinkCosts alone{.latency = kLatency, .per_byte = kPerByte, .credit = kLatency};
  LinkCosts shared = alone;
  shared.shared_per_byte = kPerByte;

  for (const int receiver : {1, 3})
    EXPECT_DOUBLE_EQ(arrival(program, alone, receiver, 0), kLatency + 10);
  EXPECT_DOUBLE_EQ(arrival(program, shared, 1, 0), kLatency + 10);
  EXPECT_DOUBLE_EQ(arrival(program, shared, 3, 0), kLatency + 20);
}

// The senders take turns, so that the first message of each is there before the second of either.
TEST(SharedLinks, SendersTakeTurns) {
  const Program program = two_senders(2);
  const LinkCosts shared{
      .latency = kLatency, .per_byte = kPerByte, .credit = kLatency, .shared_per_byte = kPerByte};

  EXPECT_DOUBLE_EQ(arrival(program, shared, 1, 0), kLatency + 10);
  EXPECT_DOUBLE_EQ(arrival(program, shared, 3, 0), kLatency + 20);
  EXPECT_DOUBLE_EQ(arrival(program, shared, 1, 1), kLatency + 30);
  EXPECT_DOUBLE_EQ(arrival(program, shared, 3, 1), kLatency + 40);
}

// A common way that is wide enough for both costs nothing: each still waits for its own link.
TEST(SharedLinks, AreNoFasterThanTheirOwnPart) {
  const LinkCosts wide{.latency = kLatency,
                       .per_byte = kPerByte,
                       .credit = kLatency,
                       .shared_per_byte = kPerByte / 4};

  for (const int receiver : {1, 3})
    EXPECT_DOUBLE_EQ(arrival(two_senders(1), wide, receiver, 0), kLatency + 10);
}

TEST(SharedLinks, LetABurstPassAtOnceAfterAPause) {
  const LinkCosts link{.latency = kLatency, .per_byte = kPerByte, .credit = kLatency, .burst = 600};
  EXPECT_DOUBLE_EQ(arrival(two_senders(1), link, 1, 0), kLatency + 4);
  EXPECT_DOUBLE_EQ(arrival(two_senders(2), link, 1, 1), kLatency + 14);

  LinkCosts shared = link;
  shared.shared_per_byte = kPerByte;
  EXPECT_DOUBLE_EQ(arrival(two_senders(1), shared, 3, 0), kLatency + 14);
}

// Each of two has 40 KiB, a third comes later with less than a turn.
TEST(SharedWays, GoRoundAmongThoseWhoHaveBytes) {
  const LinkCosts link{.shared_per_byte = 1.0 / 1024};
  SharedWays ways;
  ways.add(0, link, {.number = 0, .sender = 0, .bytes = 40 << 10, .ready = 0});
  ways.add(0, link, {.number = 1, .sender = 1, .bytes = 40 << 10, .ready = 0});
  ways.add(0, link, {.number = 2, .sender = 2, .bytes = 1 << 10, .ready = 20});
  ways.add(1, link, {.number = 3, .sender = 0, .bytes = 8 << 10, .ready = 100});

  std::vector<double> ends(4, -1);
  while (ways.next() < simulation::kNever)
    if (const auto passed = ways.advance()) ends[passed->number] = passed->end;

  // Turns of 16 KiB: one, the other, the third, one, the other, one, the other.
  EXPECT_DOUBLE_EQ(ends[2], 33);
  EXPECT_DOUBLE_EQ(std::min(ends[0], ends[1]), 73);
  EXPECT_DOUBLE_EQ(std::max(ends[0], ends[1]), 81);
  EXPECT_DOUBLE_EQ(ends[3], 108);
}

}  // namespace
}  // namespace cleave::plan
