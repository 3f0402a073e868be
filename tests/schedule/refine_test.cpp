// Replicas that cut a model at different places: stages are the common refinement of the cuts, and
// the program that they make together is proven like any other.

#include "cleave/schedule/refine.h"

#include "schedule/text_of.h"
#include <gtest/gtest.h>

#include "cleave/plan/memory/memory.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/passes.h"
#include "cleave/schedule/text.h"
#include "cleave/schedule/verifier.h"

namespace cleave::schedule {
namespace {

using cleave::testing::text_of;
using Parts = std::vector<std::vector<int>>;

/// With messages, reductions and planned memory; every fault that the verifier finds.
std::string faults_of(Program program) {
  for (Edge& edge : program.edges) edge.forward_bytes = edge.backward_bytes = 64;
  program = lower(std::move(program), {});
  const plan::StageMemory memory{
      .weights = 64, .gradients = 64, .optimizer = 128, .kept_for_input = 64, .loaded = 64};
  plan::plan_memory(program, std::vector<plan::StageMemory>(program.stages, memory));
  std::string text;
  for (const Violation& v : verify(program, Level::Final)) text += to_string(program, v) + "\n";
  return text;
}

TEST(Refine, MatchesTheTableInTheComment) {
  const Program order = generate("gpipe", {.devices = 2, .microbatches = 1});

  const Program program = refine(order, {{0, 1, 1}, {0, 0, 1}});

  EXPECT_EQ(program.stages, 3);
  EXPECT_EQ(program.devices, 4);
  EXPECT_EQ(program.replicas, 2);
  const std::vector<std::vector<int>> placement = {{0, 2}, {1, 2}, {1, 3}};
  EXPECT_EQ(program.placement, placement);
  EXPECT_EQ(text_of(program.lists[0]), "0F0 0B0");
  EXPECT_EQ(text_of(program.lists[1]), "1F0 2F0 2B0 1B0");
  EXPECT_EQ(text_of(program.lists[2]), "0F0 1F0 1B0 0B0");
  EXPECT_EQ(text_of(program.lists[3]), "2F0 2B0");
}

TEST(Refine, ReducesAStageAmongThoseWhoHoldIt) {
  const Program order = generate("zb-h1", {.devices = 2, .microbatches = 3});

  const Program program = lower(refine(order, {{0, 1, 1}, {0, 0, 1}}), {});

  EXPECT_EQ(holders_of(program, 0), (std::vector<int>{0, 2}));
  EXPECT_EQ(holders_of(program, 1), (std::vector<int>{1, 2})) << "a server's and a client's";
  EXPECT_EQ(holders_of(program, 2), (std::vector<int>{1, 3}));
}

TEST(Refine, MakesSoundProgramsOfEverySchedule) {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "zb-h2"})
    for (const int microbatches : {1, 3, 8})
      for (const Parts& parts :
           {Parts{{0, 1, 1, 2}, {0, 0, 1, 2}}, Parts{{0, 1, 2, 2}, {0, 0, 1, 2}},
            Parts{{0, 1, 1, 2, 2}, {0, 0, 0, 1, 2}, {0, 0, 1, 1, 2}}})
        EXPECT_EQ(faults_of(refine(generate(schedule, {.devices = 3, .microbatches = microbatches}),
                                   parts)),
                  "")
            << schedule << " " << microbatches;
}

TEST(Refine, MakesSoundProgramsOfSchedulesThatFold) {
  for (const char* schedule : {"zbv", "v-half", "v-min", "dualpipev"})
    for (const int microbatches : {4, 8})
      for (const Parts& parts :
           {Parts{{0, 1, 1, 2, 3}, {0, 0, 1, 2, 3}}, Parts{{0, 1, 2, 2, 3}, {0, 1, 2, 3, 3}},
            Parts{{0, 1, 1, 2, 2, 3}, {0, 0, 1, 2, 3, 3}}})
        EXPECT_EQ(faults_of(refine(generate(schedule, {.devices = 2, .microbatches = microbatches}),
                                   parts)),
                  "")
            << schedule << " " << microbatches;
}

}  // namespace
}  // namespace cleave::schedule
