#include "cleave/plan/memory/memory.h"

#include <algorithm>
#include <random>
#include <tuple>

#include "plan/memory/model_memory.h"
#include <gtest/gtest.h>

#include "cleave/base/units.h"
#include "cleave/plan/memory/interval_packing.h"
#include "cleave/plan/time/trace.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/passes.h"

namespace cleave::plan {
namespace {

using schedule::Buffer;
using schedule::BufferKind;
using schedule::Direction;
using schedule::Op;
using schedule::Program;

Program lowered(std::string_view name, int devices, int microbatches) {
  return schedule::lower(
      schedule::generate(name, {.devices = devices, .microbatches = microbatches}), {});
}

// (first, last) of the one buffer of this kind, edge direction and microbatch on a device.
std::pair<int, int> life(const Program& program, int device, BufferKind kind, int microbatch,
                         Direction direction = Direction::Forward) {
  std::pair<int, int> found{-1, -1};
  for (const Buffer& b : program.buffers)
    if (b.device == device && b.kind == kind && b.microbatch == microbatch &&
        b.direction == direction) {
      EXPECT_EQ(found.first, -1) << "two such buffers";
      found = {b.first, b.last};
    }
  return found;
}

// Two stages, microbatches 0 and 1 on the first device's list:
//   0 F0  1 SEND>0  2 RECV<0  3 F1  4 SEND>1  5 WAIT:SEND>0  6 WAIT:RECV<0  7 I0  8 RECV<1
//   9 WAIT:SEND>1  10 WAIT:RECV<1  11 B1  12 W0
Program hand_made() {
  const auto message = [](Op op, Direction direction, int m, Op completes = Op::Forward) {
    return schedule::Instruction{
        .op = op, .completes = completes, .direction = direction, .microbatch = m, .edge = 0};
  };
  const auto compute = [](Op op, int m) {
    return schedule::Instruction{.op = op, .stage = 0, .microbatch = m};
  };
  const Direction forward = Direction::Forward;
  const Direction backward = Direction::Backward;
  Program program;
  program.stages = program.devices = 2;
  program.microbatches = 2;
  program.placement = {{0}, {1}};
  program.segments = {1, 1};
  program.edges = {{.from = 0, .to = 1, .forward_bytes = 100, .backward_bytes = 200}};
  program.lists = {
      {compute(Op::Forward, 0), message(Op::Send, forward, 0), message(Op::Receive, backward, 0),
       compute(Op::Forward, 1), message(Op::Send, forward, 1),
       message(Op::Wait, forward, 0, Op::Send), message(Op::Wait, backward, 0, Op::Receive),
       compute(Op::BackwardInput, 0), message(Op::Receive, backward, 1),
       message(Op::Wait, forward, 1, Op::Send), message(Op::Wait, backward, 1, Op::Receive),
       compute(Op::Backward, 1), compute(Op::BackwardWeight, 0)},
      {}};
  return program;
}

using Life = std::pair<int, int>;

TEST(Lifetimes, FollowTheListOfTheDevice) {
  Program program = hand_made();
  std::vector<StageMemory> memory(2);
  memory[0] = {.weights = 10,
               .kept_for_input = 20,
               .kept_for_weight = 30,
               .input_kept = 40,
               .backward_work = 50,
               .loaded = 60,
               .input_until = Op::BackwardWeight};

  plan_memory(program, memory);

  EXPECT_EQ(life(program, 0, BufferKind::Weights, -1), Life(0, 12));
  EXPECT_EQ(life(program, 0, BufferKind::KeptForInput, 0), Life(0, 7));
  EXPECT_EQ(life(program, 0, BufferKind::KeptForWeight, 0), Life(0, 12));
  EXPECT_EQ(life(program, 0, BufferKind::InputKept, 0), Life(7, 12));
  EXPECT_EQ(life(program, 0, BufferKind::Arriving, 0), Life(0, 12));  // loaded, read by W
  EXPECT_EQ(life(program, 0, BufferKind::Leaving, 0), Life(0, 5));
  EXPECT_EQ(life(program, 0, BufferKind::Leaving, 1), Life(3, 9));
  EXPECT_EQ(life(program, 0, BufferKind::Arriving, 0, Direction::Backward), Life(2, 7));
  EXPECT_EQ(life(program, 0, BufferKind::KeptForWeight, 1), Life(3, 11));
  EXPECT_EQ(life(program, 0, BufferKind::InputKept, 1), Life(11, 11));
}

TEST(Lifetimes, GradientThatWeightReadsStaysUntilThen) {
  Program program = hand_made();
  std::vector<StageMemory> memory(2);
  memory[0].gradient_until = Op::BackwardWeight;
  memory[0].output_until = Op::BackwardInput;

  plan_memory(program, memory);

  EXPECT_EQ(life(program, 0, BufferKind::Arriving, 0, Direction::Backward), Life(2, 12));
  EXPECT_EQ(life(program, 0, BufferKind::Leaving, 0), Life(0, 7));
}

TEST(Lifetimes, RecomputeBringsBackWhatForwardDropped) {
  Program program = hand_made();
  program.lists[0].insert(program.lists[0].begin() + 7,
                          {.op = Op::Recompute, .stage = 0, .microbatch = 0});
  std::vector<StageMemory> memory(2);
  memory[0] = {.kept_for_input = 20, .kept_for_recompute = 5, .loaded = 60};

  plan_memory(program, memory);

  EXPECT_EQ(life(program, 0, BufferKind::KeptForRecompute, 0), Life(0, 7));
  EXPECT_EQ(life(program, 0, BufferKind::KeptForInput, 0), Life(7, 8));
  EXPECT_EQ(life(program, 0, BufferKind::Arriving, 0), Life(0, 7));
}

TEST(Lifetimes, TensorBetweenStagesOfOneDeviceIsOneBuffer) {
  Program program;
  program.stages = 2;
  program.devices = program.microbatches = 1;
  program.placement = {{0}, {0}};
  program.segments = {1, 1};
  program.edges = {{.from = 0, .to = 1, .forward_bytes = 64, .backward_bytes = 64}};
  program.lists = {{{.op = Op::Forward, .stage = 0, .microbatch = 0},
                    {.op = Op::Forward, .stage = 1, .microbatch = 0},
                    {.op = Op::Backward, .stage = 1, .microbatch = 0},
                    {.op = Op::Backward, .stage = 0, .microbatch = 0}}};

  plan_memory(program, std::vector<StageMemory>(2));

  ASSERT_EQ(program.buffers.size(), 2u);
  EXPECT_EQ(life(program, 0, BufferKind::Arriving, 0), Life(0, 1));
  EXPECT_EQ(life(program, 0, BufferKind::Arriving, 0, Direction::Backward), Life(2, 3));
}

TEST(Lifetimes, GatheredParametersEndWithTheirFree) {
  Program program = hand_made();
  program.segments = {2, 1};
  program.lists[0].insert(program.lists[0].begin(), {.op = Op::Gather, .stage = 0, .segment = 1});
  program.lists[0].insert(program.lists[0].begin() + 3, {.op = Op::Free, .stage = 0, .segment = 1});
  std::vector<StageMemory> memory(2);
  memory[0].gathered = 1000;

  plan_memory(program, memory);

  EXPECT_EQ(life(program, 0, BufferKind::Gathered, -1), Life(0, 3));
  EXPECT_EQ(program.buffers.back().bytes, 500);
}

TEST(Lifetimes, SegmentsKeepTheirShareFromTheirOwnPass) {
  Program program;
  program.stages = program.devices = program.microbatches = 1;
  program.placement = {{0}};
  program.segments = {2};
  for (const Op op : {Op::Forward, Op::Backward})
    for (int k = 0; k < 2; ++k)
      program.lists.resize(1),
          program.lists[0].push_back(
              {.op = op, .stage = 0, .segment = op == Op::Forward ? k : 1 - k, .microbatch = 0});

  plan_memory(program, std::vector<StageMemory>{{.kept_for_input = 128}});

  ASSERT_EQ(program.buffers.size(), 2u);
  EXPECT_EQ(program.buffers[0].bytes, 64);
  EXPECT_EQ(Life(program.buffers[0].first, program.buffers[0].last), Life(0, 3));
  EXPECT_EQ(Life(program.buffers[1].first, program.buffers[1].last), Life(1, 2));
  EXPECT_EQ(program.buffers[1].segment, 1);
}

// Names the first pair of buffers that are alive together and share a byte.
std::string first_overlap(const Program& program) {
  for (std::size_t i = 0; i < program.buffers.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const Buffer& a = program.buffers[i];
      const Buffer& b = program.buffers[j];
      const bool together = a.device == b.device && a.first <= b.last && b.first <= a.last;
      const bool shared = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      if (together && shared) return "buffers " + std::to_string(j) + " and " + std::to_string(i);
    }
  return "";
}

TEST(MemoryPlan, NeverGivesTwoLiveBuffersTheSameByte) {
  for (const auto name : schedule::schedule_names()) {
    Program program = lowered(name, 4, 6);
    plan_memory(program, testing::model_memory(program, testing::model_sizes().back()));
    EXPECT_EQ(first_overlap(program), "") << name;
    for (const Buffer& b : program.buffers) EXPECT_EQ(b.offset % kAlignment, 0);
  }
}

TEST(Packing, KeepsIntervalsOfManySizesApart) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<Interval> intervals(60);
    for (Interval& i : intervals) {
      i.first = static_cast<std::int32_t>(random() % 40);
      i.last = i.first + static_cast<std::int32_t>(random() % 30);
      i.bytes = 64 * (1 + static_cast<std::int64_t>(random() % 4) *
                              static_cast<std::int64_t>(random() % 4));
    }
    const auto offsets = pack_intervals(intervals).offsets;
    for (std::size_t a = 0; a < intervals.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) {
        const bool together =
            intervals[a].first <= intervals[b].last && intervals[b].first <= intervals[a].last;
        const bool apart = offsets[a] + intervals[a].bytes <= offsets[b] ||
                           offsets[b] + intervals[b].bytes <= offsets[a];
        ASSERT_TRUE(apart || !together) << "round " << round << ": " << b << " and " << a;
      }
  }
}

TEST(MemoryPlan, IsWithinTwoPercentOfTheLowerBoundOnRealModels) {
  double worst = 1;
  for (const char* name : {"gpipe", "1f1b"})
    for (const testing::ModelSizes& model : testing::model_sizes())
      for (const int p : {1, 2, 3, 4, 6, 8})
        for (const int m : {1, 4, 8, 13, 32}) {
          Program program = lowered(name, p, m);
          if (program.stages > model.layers) continue;
          plan_memory(program, testing::model_memory(program, model));
          const auto planned = peak_bytes(program);
          const auto bound = live_bytes(program);
          for (int d = 0; d < p; ++d) {
            const double ratio = static_cast<double>(planned[d]) / static_cast<double>(bound[d]);
            EXPECT_LE(ratio, 1.02)
                << name << ' ' << model.name << ' ' << p << 'x' << m << " device " << d;
            worst = std::max(worst, ratio);
          }
        }
  RecordProperty("worst_ratio", std::to_string(worst));
}

}  // namespace
}  // namespace cleave::plan
