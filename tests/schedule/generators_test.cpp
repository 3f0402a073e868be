#include "cleave/schedule/generators.h"

#include <string>

#include <gtest/gtest.h>

#include "cleave/base/check.h"

namespace cleave::schedule {
namespace {

/// The picture of a compute-only program as in the generators' comments: one row per device, the
/// stage left out where a device has only one.
std::string picture(const Program& program) {
  std::string text;
  for (const auto& list : program.lists) {
    for (const Instruction& i : list) {
      if (&i != list.data()) text += ' ';
      if (program.stages > program.devices) text += std::to_string(i.stage);
      text += name_of(i.op);
      text += std::to_string(i.microbatch);
    }
    text += '\n';
  }
  return text;
}

TEST(Gpipe, MatchesTheTableInTheComment) {
  EXPECT_EQ(picture(generate("gpipe", {.devices = 2, .microbatches = 3})),
            "F0 F1 F2 B0 B1 B2\n"
            "F0 F1 F2 B0 B1 B2\n");
}

TEST(OneFOneB, MatchesTheTableInTheComment) {
  EXPECT_EQ(picture(generate("1f1b", {.devices = 4, .microbatches = 4})),
            "F0 F1 F2 F3 B0 B1 B2 B3\n"
            "F0 F1 F2 B0 F3 B1 B2 B3\n"
            "F0 F1 B0 F2 B1 F3 B2 B3\n"
            "F0 B0 F1 B1 F2 B2 F3 B3\n");
}

TEST(Generate, SaysWhatItNeeds) {
  const auto message = [](std::string_view schedule, PipelineShape shape) -> std::string {
    try {
      generate(schedule, shape);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("1f1b", {.devices = 0}), "a pipeline needs at least one device, got 0");
  EXPECT_EQ(message("1f1b", {.microbatches = -1}), "a step needs at least one microbatch, got -1");
  EXPECT_EQ(message("gpipe", {.chunks = 2}),
            "schedule gpipe has 1 stage on each device, not 2; leave chunks out or choose "
            "interleaved or looped-bfs");
  EXPECT_TRUE(message("2f2b", {}).starts_with("unknown schedule '2f2b'; known are gpipe 1f1b"));
  EXPECT_NE(message("1f1b", {.devices = 1 << 30, .microbatches = 1 << 30}), "");
}

}  // namespace
}  // namespace cleave::schedule
