#include "cleave/plan/time/trace.h"

#include <gtest/gtest.h>

namespace cleave::plan {
namespace {

using schedule::Op;

Span compute(int device, Op op, int microbatch, double begin, double end) {
  return {.device = device,
          .kind = span_kind(op),
          .begin = begin,
          .end = end,
          .instruction = {.op = op, .stage = device, .microbatch = microbatch}};
}

// Two devices, one microbatch: F0 | F1 B1 | B0, with a B of 2.
schedule::Program two_stages() {
  schedule::Program program;
  program.stages = program.devices = 2;
  program.microbatches = 1;
  program.placement = {{0}, {1}};
  program.segments = {1, 1};
  program.lists.resize(2);
  for (int d = 0; d < 2; ++d)
    program.lists[d] = {{.op = Op::Forward, .stage = d, .microbatch = 0},
                        {.op = Op::Backward, .stage = d, .microbatch = 0}};
  return program;
}

TEST(Summary, CountsCostFromFirstStartAndWorkFromTheBusiestDevice) {
  Trace trace{.devices = 2};
  trace.spans = {compute(0, Op::Forward, 0, 0, 1), compute(0, Op::Backward, 0, 4, 6),
                 compute(1, Op::Forward, 0, 1, 2), compute(1, Op::Backward, 0, 2, 4)};

  const Summary summary = summarise(two_stages(), trace);

  EXPECT_DOUBLE_EQ(summary.makespan, 6);
  EXPECT_DOUBLE_EQ(summary.cost, 6);
  EXPECT_DOUBLE_EQ(summary.work, 3);
  EXPECT_DOUBLE_EQ(summary.bubble_rate, 0.5);
  EXPECT_DOUBLE_EQ(summary.idle, 0.5);
  EXPECT_DOUBLE_EQ(summary.devices[1].first_start, 1);
  EXPECT_DOUBLE_EQ(summary.devices[1].peak_activations, 1);
}

TEST(Summary, KeepsUpdatesOutOfTheCostAndTransfersOutOfBusy) {
  Trace trace{.devices = 1};
  trace.spans = {compute(0, Op::Forward, 0, 1, 2), compute(0, Op::Step, -1, 5, 9)};
  trace.spans.push_back({.kind = SpanKind::Transfer, .begin = 2, .end = 10});

  const Summary summary = summarise(two_stages(), trace);

  EXPECT_DOUBLE_EQ(summary.cost, 1);
  EXPECT_DOUBLE_EQ(summary.devices[0].busy, 5);
  EXPECT_DOUBLE_EQ(summary.makespan, 10);
}

// Sums on their way from 1 to 4, 2 to 6 and 8 to 9; of a gathering from 0 to 10 nobody asks.
// The device was at its messages from 1 to 2, 3 to 5 and 8 to 9.
TEST(Overlap, CountsTimeOnceAndWithoutTheMessagesThemselves) {
  const auto exchange = [](Op op, double begin, double end, double waited_before, double waited) {
    return CollectiveSpan{.begin = begin,
                          .end = end,
                          .waited_before = waited_before,
                          .waited = waited,
                          .instruction = {.op = op}};
  };
  const std::vector<CollectiveSpan> exchanges = {
      exchange(Op::Gather, 0, 10, 0, 4), exchange(Op::Reduce, 1, 4, 0, 2),
      exchange(Op::Reduce, 2, 6, 1, 2), exchange(Op::Reduce, 8, 9, 3, 1)};
  const auto reduces = [](Op op) { return op == Op::Reduce; };

  const Overlap found = overlap(exchanges, reduces);

  EXPECT_EQ(found.in_flight, 6);
  EXPECT_EQ(found.hidden, 2);
  EXPECT_EQ(overlap({}, reduces).share(), 1);
  EXPECT_EQ(exchanges[2].hidden(), 2);
}

TEST(PeakActivations, CountAChunkAsItsShareOfTheDevice) {
  schedule::Program program = two_stages();
  program.devices = 1;
  program.placement = {{0}, {0}};
  program.lists = {{{.op = Op::Forward, .stage = 0, .microbatch = 0},
                    {.op = Op::Forward, .stage = 1, .microbatch = 0},
                    {.op = Op::BackwardInput, .stage = 1, .microbatch = 0},
                    {.op = Op::BackwardInput, .stage = 0, .microbatch = 0},
                    {.op = Op::BackwardWeight, .stage = 1, .microbatch = 0},
                    {.op = Op::BackwardWeight, .stage = 0, .microbatch = 0}}};
  EXPECT_EQ(peak_activations(program), std::vector<double>{1.0});

  program.lists[0].erase(program.lists[0].begin() + 1, program.lists[0].end() - 1);
  EXPECT_EQ(peak_activations(program), std::vector<double>{0.5});
}

TEST(PeakActivations, EndOnlyWithTheLastSegment) {
  schedule::Program program = two_stages();
  program.microbatches = 2;
  program.segments = {2, 2};
  program.lists[0] = {{.op = Op::Forward, .stage = 0, .segment = 0, .microbatch = 0},
                      {.op = Op::Forward, .stage = 0, .segment = 1, .microbatch = 0},
                      {.op = Op::Backward, .stage = 0, .segment = 1, .microbatch = 0},
                      {.op = Op::Forward, .stage = 0, .segment = 0, .microbatch = 1}};
  EXPECT_EQ(peak_activations(program)[0], 2.0);
}

TEST(LiveBytes, AddWhatIsAliveAtOneInstruction) {
  schedule::Program program = two_stages();
  program.buffers = {{.device = 0, .bytes = 64, .first = 0, .last = 0},
                     {.device = 0, .bytes = 1, .first = 1, .last = 1},
                     {.device = 1, .bytes = 128, .first = 0, .last = 1},
                     {.device = 1, .bytes = 128, .first = 1, .last = 1}};
  EXPECT_EQ(live_bytes(program), (std::vector<std::int64_t>{64, 256}));
}

}  // namespace
}  // namespace cleave::plan
