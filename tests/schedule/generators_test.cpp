#include "cleave/schedule/generators.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <tuple>

#include "support/errors.h"
#include "support/paths.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/schedule/passes.h"
#include "cleave/schedule/verifier.h"

namespace cleave::schedule {
namespace {

using cleave::testing::user_error;

/// One row per device, as in the generators' comments: the stage is left out where a device has
/// only one.
std::string picture(const Program& program) {
  std::string text;
  for (int device = 0; device < program.devices; ++device) {
    text += "device " + std::to_string(device) + " |";
    for (const Instruction& i : program.lists[device]) {
      text += ' ';
      if (program.stages > program.devices) text += std::to_string(i.stage);
      text += name_of(i.op);
      text += std::to_string(i.microbatch);
    }
    text += '\n';
  }
  return text;
}

std::string picture_in_comment(const std::string& file) {
  std::ifstream in(testing::source_path("src/cleave/schedule/generators/" + file));
  std::string text;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("//   device ")) text += line.substr(5) + '\n';
  return text;
}

TEST(Generators, EmitThePicturesInTheirComments) {
  struct Case {
    const char* schedule;
    const char* file;
    int devices;
    int microbatches;
  };
  const Case cases[] = {
      {"gpipe", "gpipe.cpp", 2, 3},
      {"1f1b", "one_f_one_b.cpp", 4, 4},
      {"interleaved", "interleaved.cpp", 2, 4},
      {"interleaved-lean", "interleaved_lean.cpp", 2, 3},
      {"looped-bfs", "looped_bfs.cpp", 2, 3},
      {"zb-h1", "zb_h1.cpp", 3, 4},
      {"zb-h2", "zb_h2.cpp", 2, 4},
      {"zbv", "zbv.cpp", 2, 3},
      {"v-half", "v_half.cpp", 2, 3},
      {"v-min", "v_min.cpp", 2, 3},
      {"dualpipev", "dualpipev.cpp", 2, 4},
  };
  EXPECT_EQ(std::size(cases), schedule_names().size());
  for (const auto& [schedule, file, devices, microbatches] : cases) {
    std::string pictures =
        picture(generate(schedule, {.devices = devices, .microbatches = microbatches}));
    if (schedule_named(schedule).starts_early)
      pictures += picture(generate(schedule, {.devices = 2, .microbatches = 4, .early = 1}));
    EXPECT_EQ(pictures, picture_in_comment(file));
  }
}

/// Every stage runs F, I and W of every microbatch once, in this order, on its own device, and W in
/// the order of microbatches.
std::string fault(const Program& program) {
  std::map<std::tuple<int, int>, int> done;  // (stage, microbatch) -> F 1, I 2, W 3
  std::vector<int> weights(program.stages, 0);
  for (int device = 0; device < program.devices; ++device)
    for (const Instruction& i : program.lists[device]) {
      if (program.placement.at(i.stage) != std::vector{device}) return "misplaced " + to_string(i);
      int& state = done[{i.stage, i.microbatch}];
      const int before = i.op == Op::Forward ? 0 : i.op == Op::BackwardWeight ? 2 : 1;
      if (state != before) return "out of order " + to_string(i);
      state = i.op == Op::Backward ? 3 : before + 1;
      if (state == 3 && weights[i.stage]++ != i.microbatch) return "early " + to_string(i);
    }
  for (int stage = 0; stage < program.stages; ++stage)
    for (int mb = 0; mb < program.microbatches; ++mb)
      if (done[{stage, mb}] != 3) return "missing " + std::to_string(stage);
  return "";
}

TEST(Generators, RunEveryActionOnceForEveryShape) {
  for (const auto schedule : schedule_names())
    for (int devices = 1; devices <= 8; ++devices)
      for (int microbatches = 1; microbatches <= 24; ++microbatches)
        EXPECT_EQ(fault(generate(schedule, {.devices = devices, .microbatches = microbatches})), "")
            << schedule << ' ' << devices << " x " << microbatches;
}

TEST(Generators, BeginMicrobatchesEarlyWhereTheyCan) {
  for (int devices = 1; devices <= 5; ++devices)
    for (int microbatches = 1; microbatches <= 12; ++microbatches)
      for (int early = 0; early <= 4; ++early) {
        const Program program =
            generate("1f1b", {.devices = devices, .microbatches = microbatches, .early = early});
        EXPECT_EQ(fault(program), "") << devices << " x " << microbatches << " early " << early;
        EXPECT_TRUE(verify(program, Level::Compute).empty());
        EXPECT_TRUE(verify(lower(program, {.receive_ahead = 1 + 2 * early}), Level::Final).empty())
            << devices << " x " << microbatches << " early " << early;
      }
  EXPECT_EQ(user_error([] { generate("zb-h1", {.devices = 2, .microbatches = 4, .early = 2}); }),
            "schedule zb-h1 begins no microbatches early, and parallel.early is 2; choose 1f1b, or "
            "leave it out");
}

TEST(Generators, TakeAnyNumberOfChunksWhereTheyCan) {
  for (const char* schedule : {"interleaved", "interleaved-lean", "looped-bfs"})
    for (int chunks = 1; chunks <= 5; ++chunks)
      for (int microbatches = 1; microbatches <= 9; ++microbatches) {
        const Program program =
            generate(schedule, {.devices = 3, .microbatches = microbatches, .chunks = chunks});
        EXPECT_EQ(fault(program), "");
        EXPECT_EQ(program.stages, 3 * chunks);
      }
}

TEST(Generators, FoldStagesBackInV) {
  const Program program = generate("zbv", {.devices = 3, .microbatches = 1});
  EXPECT_EQ(program.placement, (std::vector<std::vector<int>>{{0}, {1}, {2}, {2}, {1}, {0}}));
}

TEST(Registry, TraitsAreTrueOfThePrograms) {
  for (const Schedule& schedule : schedules()) {
    const Program program = generate(schedule.name, {.devices = 3, .microbatches = 6});
    SCOPED_TRACE(schedule.name);

    EXPECT_EQ(program.stages, 3 * schedule.chunks);
    EXPECT_EQ(program.placement[3 % program.stages][0], schedule.fold == Fold::V ? 2 : 0);
    const bool splits = std::ranges::any_of(program.lists, [](const auto& list) {
      return std::ranges::count(list, Op::BackwardWeight, &Instruction::op) > 0;
    });
    EXPECT_EQ(splits, schedule.splits_backward);
    const auto& first = program.lists[0];
    const auto turn = std::ranges::find_if(first, [](auto& i) { return i.op != Op::Forward; });
    EXPECT_EQ(turn - first.begin() == 6 * schedule.chunks, schedule.keeps_all);
  }
}

TEST(Registry, TakesThePlainestThatHasTheChunks) {
  EXPECT_EQ(plainest_schedule(1).name, "1f1b");
  EXPECT_EQ(plainest_schedule(2).name, "interleaved");
  EXPECT_EQ(plainest_schedule(1 << 30).name, "interleaved");
}

TEST(Generators, SayWhatTheyNeed) {
  const auto error = [](std::string_view schedule, PipelineShape shape) {
    return user_error([&] { generate(schedule, shape); });
  };
  EXPECT_EQ(error("1f1b", {.devices = 0}), "a pipeline needs at least one device, got 0");
  EXPECT_EQ(error("1f1b", {.microbatches = -1}), "a step needs at least one microbatch, got -1");
  EXPECT_EQ(error("gpipe", {.chunks = 2}),
            "schedule gpipe has 1 stage on each device, not 2; leave chunks out or choose "
            "interleaved, interleaved-lean or looped-bfs");
  EXPECT_EQ(error("zbv", {.chunks = 1}),
            "schedule zbv has 2 stages on each device, not 1; leave chunks out or choose "
            "interleaved, interleaved-lean or looped-bfs");
  EXPECT_EQ(error("interleaved", {.chunks = -1}), "chunks must be between 1 and 1024, got -1");
  EXPECT_TRUE(
      error("2f2b", {})
          .starts_with("unknown schedule '2f2b'; did you mean 1f1b? Known are gpipe, 1f1b"));
  EXPECT_EQ(error("1f1b", {.devices = 1 << 30, .microbatches = 1 << 30}),
            "1073741824 devices x 1 chunks x 1073741824 microbatches are more than the 100000000 "
            "forwards that a program may have");
  EXPECT_EQ(error("gpipe", {.devices = 2, .microbatches = 4, .replicas = {1 << 24, 1}}),
            "2 devices x 1 chunks x 4 microbatches x 16777216 replicas are more than the 100000000 "
            "forwards that a program may have");
  for (const std::string name : {"zbv", "v-half", "v-min", "dualpipev", "interleaved-lean"})
    EXPECT_EQ(user_error([&] { generate(name, {.devices = 200'000, .microbatches = 1}); }),
              "200000 devices x 2 chunks x 400000 microbatches, of which " + name +
                  " is made however few there are, are more than the 100000000 forwards that a "
                  "program may have");
}

}  // namespace
}  // namespace cleave::schedule
