#include "cleave/schedule/passes.h"

#include <string>

#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/plan/simulator.h"
#include "cleave/schedule/generators.h"

namespace cleave::schedule {
namespace {

std::string text_of(const std::vector<Instruction>& list) {
  std::string text;
  for (const Instruction& i : list) {
    if (!text.empty()) text += ' ';
    text += to_string(i);
  }
  return text;
}

TEST(Communication, PlacesBothEndsByOneRule) {
  const Program program = lower(generate("1f1b", {.devices = 2, .microbatches = 2}), {});

  EXPECT_EQ(text_of(program.lists[0]),
            "0F0 SEND:0>0 RECV:0<0 0F1 SEND:0>1 "
            "RECV:0<1 WAIT:RECV:0<0 WAIT:SEND:0>0 0B0 "
            "WAIT:RECV:0<1 WAIT:SEND:0>1 0B1");
  EXPECT_EQ(text_of(program.lists[1]),
            "RECV:0>0 WAIT:RECV:0>0 1F0 RECV:0>1 1B0 SEND:0<0 "
            "WAIT:RECV:0>1 1F1 1B1 SEND:0<1 WAIT:SEND:0<0 WAIT:SEND:0<1");
}

TEST(Communication, SendsNothingBetweenStagesOfOneDevice) {
  Program program = generate("gpipe", {.devices = 2, .microbatches = 1});
  program.placement = {{0}, {0}};
  program.lists[0].insert(program.lists[0].begin() + 1, program.lists[1][0]);
  program.lists[0].insert(program.lists[0].begin() + 2, program.lists[1][1]);
  program.lists[1].clear();

  EXPECT_EQ(lower(program, {}).lists, program.lists);
}

TEST(Communication, SaysWhatIsMissing) {
  Program program = generate("gpipe", {.devices = 2, .microbatches = 2});
  program.lists[1].pop_back();
  try {
    lower(program, {});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "no device runs 1I1 (or B)");
  }
}

// A WAIT that stalled somebody, or a RECV that came too late, would show as time. The latency is
// no longer than the shortest compute instruction, 6 / 2 for one of two chunks.
TEST(Communication, CostsNoTimeBeyondTheLatency) {
  for (const auto schedule : schedule_names())
    for (int devices = 1; devices <= 6; ++devices)
      for (int microbatches = 1; microbatches <= 13; ++microbatches) {
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

}  // namespace
}  // namespace cleave::schedule
