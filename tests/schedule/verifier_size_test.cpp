// Programs of a size at which what grows faster than they do takes minutes; each is proven, or
// refused, in about a second.

#include "schedule/written.h"
#include <gtest/gtest.h>

#include "cleave/schedule/generators.h"
#include "cleave/schedule/passes.h"
#include "cleave/schedule/verifier.h"

namespace cleave::schedule {
namespace {

// Of 20,000 replicas each waits for all others, six times.
TEST(VerifierSize, GrowsWithReplicasAsTheProgramDoes) {
  constexpr int kReplicas = 20'000;
  Program program = lower(generate("gpipe", {.devices = 1, .microbatches = 1}),
                          {.replicas = kReplicas, .sharing = Sharing::Gradients});
  EXPECT_TRUE(verify(program).empty());
}

// Two devices wait for each other, and all others for these two.
TEST(VerifierSize, FindsADeadlockThatAllWaitForAsQuickly) {
  Program program = lower(
      generate("gpipe", {.devices = 20'000, .microbatches = 1, .graph = {{.from = 0, .to = 1}}}),
      {});
  EXPECT_TRUE(verify(program).empty());

  program.lists[0] =
      testing::written("0F0 RECV:0<0 WAIT:RECV:0<0 SEND:0>0 WAIT:SEND:0>0 0B0 NORM STEP");
  EXPECT_EQ(verify(program).size(), 1u);
}

/// Every segment reads the one before it and the first of its stage, and its input and gradient
/// have a buffer for each microbatch.
Program with_reads(int stages, int segments, int microbatches) {
  Program program = generate("gpipe", {.devices = stages, .microbatches = microbatches});
  program.segments.assign(stages, segments);
  program = lower(std::move(program), {.grain = Grain::Segment});
  for (int stage = 0; stage < stages; ++stage) {
    const auto end = static_cast<std::int32_t>(program.lists[stage].size()) - 1;
    if (stage > 0)
      program.reads.push_back({.stage = stage, .from = segments - 1, .edge = stage - 1});
    for (int segment = 1; segment < segments; ++segment) {
      program.reads.push_back({.stage = stage, .segment = segment, .from = segment - 1});
      for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
        Buffer buffer{.kind = BufferKind::SegmentInput,
                      .device = stage,
                      .stage = stage,
                      .microbatch = microbatch,
                      .segment = segment,
                      .last = end,
                      .offset = 0};
        program.buffers.push_back(buffer);
        buffer.kind = BufferKind::SegmentGradient;
        buffer.segment = segment - 1;
        program.buffers.push_back(buffer);
      }
    }
  }
  return program;
}

TEST(VerifierSize, GrowsWithReadsAndBuffersAsTheProgramDoes) {
  Program program = with_reads(16, 4000, 3);
  EXPECT_TRUE(verify(program).empty());

  program.buffers.back().first = program.buffers.back().last;
  EXPECT_EQ(verify(program).size(), 1u);
}

// A sum is used from the first W of any microbatch to the last, which every buffer that claims to
// be one was asked for anew.
TEST(VerifierSize, GrowsWithSumsAndMicrobatchesAsTheProgramDoes) {
  constexpr int kMany = 200'000;
  Program program = lower(generate("gpipe", {.devices = 1, .microbatches = kMany}), {});
  const auto end = static_cast<std::int32_t>(program.lists[0].size()) - 1;
  const Buffer sums{.kind = BufferKind::Sums, .stage = 0, .last = end, .offset = 0};
  program.buffers.assign(kMany, sums);
  const std::vector<Violation> faults = verify(program);
  ASSERT_EQ(faults.size(), kMostViolations);
  EXPECT_EQ(faults[0].reason, "buffer sums of stage 0 is there twice");

  program.buffers.assign(1, sums);
  EXPECT_TRUE(verify(program).empty());
  program.buffers[0].first = kMany + 1;  // after the first W
  EXPECT_EQ(verify(program).size(), 1u);
}

}  // namespace
}  // namespace cleave::schedule
