// Programs of which replicas run different parts: what is left stands in the same order, in the
// same memory, and all replicas post the same collectives.

#include "cleave/schedule/leave_out.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "cleave/plan/memory/memory.h"
#include "cleave/schedule/effects.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/passes.h"
#include "cleave/schedule/text.h"
#include "cleave/schedule/verifier.h"

namespace cleave::schedule {
namespace {

/// An encoder of two stages beside one of text, both read by a third module.
Program encoder_and_text(std::string_view schedule, const LowerOptions& options) {
  Program program = generate(schedule, {.devices = 5,
                                        .microbatches = 4,
                                        .graph = {{.from = 0, .to = 1},
                                                  {.from = 1, .to = 3},
                                                  {.from = 2, .to = 3},
                                                  {.from = 3, .to = 4}}});
  for (Edge& edge : program.edges) edge.forward_bytes = edge.backward_bytes = 64;
  program = lower(std::move(program), options);
  std::vector<plan::StageMemory> memory(5, {.weights = 64,
                                            .gradients = 64,
                                            .optimizer = 128,
                                            .kept_for_input = 64,
                                            .loaded = 64,
                                            .gathered = 128});
  plan::plan_memory(program, memory);
  return program;
}

/// The encoder is absent from the last microbatches of each replica, from more of the later one.
std::vector<Absence> without_images(int replicas, int with) {
  std::vector<Absence> absent;
  for (int r = 0; r < replicas; ++r)
    for (int m = 0; m < 4; ++m)
      for (const int stage : {0, 1})
        if (m * replicas + r >= with) absent.push_back({stage, m, r});
  return absent;
}

std::vector<Instruction> collectives_of(const Program& program, int device) {
  std::vector<Instruction> posted;
  std::ranges::copy_if(program.lists[device], std::back_inserter(posted),
                       [](const Instruction& i) { return is_posted_collective(i.op); });
  return posted;
}

TEST(LeaveOut, IsSoundForEveryScheduleAndEveryNumber) {
  for (const auto schedule : {"1f1b", "gpipe", "zb-h1"})
    for (const Sharing sharing :
         {Sharing::Nothing, Sharing::State, Sharing::Gradients, Sharing::Values})
      for (const int replicas : {1, 2, 3})
        for (int with = 0; with <= 4 * replicas; ++with) {
          const Program whole =
              encoder_and_text(schedule, {.replicas = replicas, .sharing = sharing});
          const Program part = leave_out(whole, without_images(replicas, with));
          const auto violations = verify(part, Level::Final);
          ASSERT_TRUE(violations.empty())
              << schedule << ", sharing " << static_cast<int>(sharing) << ", " << replicas
              << " replicas, " << with << ": " << to_string(part, violations[0]);
          for (int d = 0; d < 5; ++d)
            for (int r = 1; r < replicas; ++r)
              EXPECT_EQ(collectives_of(part, d), collectives_of(part, d + 5 * r));
        }
}

TEST(LeaveOut, KeepsOrderAndPlaces) {
  const Program whole = encoder_and_text("1f1b", {.replicas = 2});
  const Program part = leave_out(whole, without_images(2, 3));
  for (int d = 0; d < whole.devices; ++d) {
    auto at = whole.lists[d].begin();
    for (const Instruction& i : part.lists[d]) {
      at = std::find(at, whole.lists[d].end(), i);
      ASSERT_NE(at, whole.lists[d].end()) << to_string(i);
    }
  }
  for (Buffer b : part.buffers) {
    const auto same = std::ranges::find_if(whole.buffers, [&](const Buffer& w) {
      b.first = w.first;
      b.last = w.last;
      return b == w;
    });
    EXPECT_NE(same, whole.buffers.end());
  }
  EXPECT_LT(part.buffers.size(), whole.buffers.size());
}

TEST(LeaveOut, GathersNothingThatNobodyUses) {
  const Program whole = encoder_and_text("gpipe", {.replicas = 2, .sharing = Sharing::Values});
  const auto gathers = [](const Program& program) {
    return std::ranges::count(program.lists[0], Op::Gather, &Instruction::op);
  };
  EXPECT_EQ(gathers(leave_out(whole, without_images(2, 8))), gathers(whole));
  EXPECT_GT(gathers(leave_out(whole, without_images(2, 1))), 0);
  EXPECT_EQ(gathers(leave_out(whole, without_images(2, 0))), 0);
}

TEST(LeaveOut, IsWrittenAndRead) {
  const Program part = leave_out(encoder_and_text("1f1b", {.replicas = 2}), without_images(2, 3));
  EXPECT_EQ(part.absent[0], (Absence{0, 1, 1}));
  EXPECT_EQ(part.absent[1], (Absence{0, 2}));
  const std::string text = to_text(part);
  EXPECT_NE(text.find("\nabsent 0 1 replica 1\nabsent 0 2\n"), std::string::npos) << text;
  EXPECT_EQ(parse_program(text), part);
}

TEST(LeaveOut, IsHeldToByTheVerifier) {
  const Program whole = encoder_and_text("1f1b", {.replicas = 2});
  Program program = whole;
  program.absent = leave_out(whole, without_images(2, 3)).absent;
  EXPECT_FALSE(verify(program, Level::Final).empty());

  program = leave_out(whole, without_images(2, 3));
  program.absent = leave_out(whole, without_images(2, 2)).absent;
  EXPECT_EQ(verify(program, Level::Final)[0].reason, "stage 0 is absent from microbatch 1");

  program = whole;
  program.absent = {{0, 0, 2}};
  EXPECT_EQ(verify(program, Level::Final)[0].reason,
            "stage 0 is absent from microbatch 0 of replica 2, which does not exist");
  program.absent = {{1, 0, 1}};
  EXPECT_EQ(verify(program, Level::Final)[0].reason,
            "stage 0 takes part in microbatch 0 of replica 1, but nobody that reads it does");
  program.absent = {{0, 0}, {0, 0, 1}};
  EXPECT_EQ(verify(program, Level::Final)[0].reason, "absences are not in order, or written twice");
}

}  // namespace
}  // namespace cleave::schedule
