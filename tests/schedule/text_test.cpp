#include "cleave/schedule/text.h"

#include <fstream>
#include <iterator>
#include <random>
#include <sstream>

#include "support/errors.h"
#include "support/paths.h"
#include <gtest/gtest.h>

#include "cleave/base/hash.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/graph.h"
#include "cleave/schedule/passes.h"
#include "cleave/schedule/verifier.h"

namespace cleave::schedule {
namespace {

using cleave::testing::user_error;

/// Everything that a program can have, in one.
Program full_program() {
  Program program = generate("zbv", {.devices = 2, .microbatches = 3});
  program.schedule = "zbv by hand";
  program.segments = {1, 2, 3, 1};
  program.ties = {{.first = 0, .second = 3, .bytes = 1 << 20}};
  program.edges[0] = {.from = 0, .to = 1, .forward_bytes = 1ll << 40, .backward_bytes = 7};
  program.edges.push_back({.from = 0, .to = 3, .forward_bytes = 64, .backward = false});
  program.budgets = {1000, 2000};
  program.gradients = {GradientKind::Full, GradientKind::InputOnly, GradientKind::Full,
                       GradientKind::Full};
  program.absent = {{.stage = 0, .microbatch = 1}, {.stage = 3, .microbatch = 0}};
  leave_out_undemanded(program);
  program = lower(program, {.replicas = 2,
                            .recompute = std::vector(4, Recompute::Full),
                            .grain = Grain::Segment,
                            .sharing = Sharing::Values});
  program.buffers = {{.kind = BufferKind::Weights, .stage = 1, .bytes = 64, .last = 9, .offset = 0},
                     {.kind = BufferKind::Arriving,
                      .device = 3,
                      .edge = 2,
                      .direction = Direction::Backward,
                      .microbatch = 2,
                      .bytes = 128,
                      .first = 4,
                      .last = 5},
                     {.kind = BufferKind::Gathered, .stage = 2, .segment = 1, .bytes = 1}};
  return program;
}

TEST(Text, RoundTripsEverything) {
  const Program program = full_program();
  const std::string text = to_text(program);

  EXPECT_EQ(parse_program(text), program);
  EXPECT_EQ(to_text(parse_program(text)), text);
}

TEST(Text, HasAWordForEveryKindOfBuffer) {
  Program program = generate("gpipe", {.devices = 1, .microbatches = 1});
  for (int kind = 0; kind <= static_cast<int>(BufferKind::Scratch); ++kind)
    program.buffers.push_back({.kind = static_cast<BufferKind>(kind), .bytes = 1});

  EXPECT_EQ(parse_program(to_text(program)), program);
  EXPECT_NE(to_text(program).find("buffer scratch"), std::string::npos);
}

TEST(Text, RoundTripsEverySchedule) {
  for (const auto schedule : schedule_names()) {
    const Program program = lower(generate(schedule, {.devices = 3, .microbatches = 7}), {});
    EXPECT_EQ(parse_program(to_text(program)), program) << schedule;
  }
}

// Written by: cleave schedule KIND --stages 2 --microbatches 3 --format text --final
TEST(Text, MatchesTheGoldenFiles) {
  for (const auto schedule : schedule_names()) {
    std::string path = testing::source_path("tests/golden/" + std::string(schedule) + "_2x3.txt");
    std::ifstream file(path);
    const std::string golden{std::istreambuf_iterator(file), {}};
    EXPECT_EQ(to_text(lower(generate(schedule, {.devices = 2, .microbatches = 3}), {})), golden)
        << path;
  }
}

// Written by cleave before version 2 of the form.
TEST(Text, ReadsVersion1) {
  for (const auto schedule : schedule_names()) {
    if (schedule == "interleaved") continue;  // another order then, which is now the lean one
    const std::string then(schedule == "interleaved-lean" ? "interleaved" : schedule);
    const std::string path = testing::source_path("tests/golden/version_1/" + then + "_2x3.txt");
    std::ifstream file(path);
    const ReadProgram read = read_text(std::string{std::istreambuf_iterator(file), {}});
    EXPECT_TRUE(read.hash_matches) << path;
    Program expected = lower(generate(schedule, {.devices = 2, .microbatches = 3}), {});
    expected.schedule = then;
    EXPECT_EQ(read.program, expected) << path;
  }
}

TEST(Text, AddsTheWaitsOfVersion1) {
  const Program program = parse_program(R"(cleave-program 1
stages 1
devices 2
replicas 2
microbatches 1
place 0 0 1
device 0
  GATHER:0 0F0 0B0 REDUCE:0 FREE:0 NORM STEP
device 1
  GATHER:0 0F0 0B0 REDUCE:0 FREE:0 NORM STEP
buffer reducing 0 64 3 5 stage 0 offset 0
buffer reducing 1 64 3 5 stage 0 offset 0
buffer scratch 0 64 0 6 offset 64
)");

  EXPECT_EQ(program.sharing, std::vector{Sharing::Values});
  std::string list;
  for (const Instruction& i : program.lists[0]) list += to_string(i) + ' ';
  EXPECT_EQ(list, "GATHER:0 WAIT:GATHER:0 0F0 0B0 REDUCE:0 FREE:0 WAIT:REDUCE:0 NORM STEP ");
  EXPECT_EQ(program.buffers[0].first, 4);
  EXPECT_EQ(program.buffers[0].last, 7);
  EXPECT_EQ(program.buffers[2].last, 8);
  EXPECT_TRUE(verify(program).empty());
}

TEST(Text, TakesWhatAPersonWrites) {
  const Program program = parse_program(R"(cleave-program 2
# Two devices, and I let go of everything that has a default.
stages 2
microbatches 2
edges chain
device 0   0F0 0F1
  0B0 0B1  # the second in a line of its own
device 1
  1F0 1B0 1F1 1B1
)");

  Program expected = generate("1f1b", {.devices = 2, .microbatches = 2});
  expected.schedule = "";
  EXPECT_EQ(program, expected);
  EXPECT_EQ(verify_compute(program).size(), 0u);
}

TEST(Text, TheProgramInTheDocumentationIsSound) {
  std::ifstream file(testing::source_path("docs/schedules.md"));
  const std::string page{std::istreambuf_iterator(file), {}};
  const std::size_t from = page.find("\ncleave-program") + 1;
  const Program program = parse_program(page.substr(from, page.find("```", from) - from));

  EXPECT_EQ(verify_compute(program).size(), 0u);
  EXPECT_EQ(instruction_count(lower(program, {})), 46);
}

TEST(Text, KnowsWhenItWasChanged) {
  std::string text = to_text(generate("1f1b", {.devices = 2, .microbatches = 2}));
  text.replace(text.find("0B0"), 3, "0B1");

  EXPECT_FALSE(read_text(text).hash_matches);
  EXPECT_EQ(user_error([&] { parse_program(text); }),
            "the program was changed after its hash was written; remove the line 'hash ...' if "
            "that was on purpose");
  EXPECT_TRUE(read_text(text.substr(0, text.find("hash"))).hash_matches);
}

TEST(Text, HashesWhatItHolds) {
  Program program = full_program();
  const auto hash = content_hash(program);
  EXPECT_TRUE(to_text(program).ends_with("hash " + to_hex(hash) + "\n"));
  program.lists[1][0].microbatch ^= 1;
  EXPECT_NE(content_hash(program), hash);
}

TEST(Text, NamesLineAndColumn) {
  const auto error = [](std::string_view text) { return user_error([&] { parse_program(text); }); };
  const std::string head = "cleave-program 2\nstages 2\nmicrobatches 1\n";
  EXPECT_EQ(error(""), "line 1, column 1: the text ends before its first line, 'cleave-program 2'");
  EXPECT_EQ(error("F0 F1"), "line 1, column 1: a program begins with 'cleave-program 2'");
  EXPECT_EQ(error("cleave-program 9"),
            "line 1, column 16: this is version 9 of the text form; known are 1 to 2");
  EXPECT_EQ(error("cleave-program 2\nstages many"),
            "line 2, column 8: 'many' is not a whole number");
  EXPECT_EQ(error("cleave-program 2\nstages -4"),
            "line 2, column 8: '-4' is not between 1 and 2147483647");
  EXPECT_EQ(error("cleave-program 2\nstages 99999999999999999999"),
            "line 2, column 8: '99999999999999999999' is not between 1 and 2147483647");
  EXPECT_EQ(error("cleave-program 2\nstages"), "line 2, column 7: 'stages' needs a number here");
  EXPECT_EQ(error(head + "stages 3"), "line 4, column 1: 'stages' are given twice");
  EXPECT_EQ(error(head + "speed 3"), "line 4, column 1: unknown word 'speed'");
  EXPECT_EQ(error(head + "edge 0 2"), "line 4, column 8: '2' is not between 0 and 1");
  EXPECT_EQ(error(head + "0F0"),
            "line 4, column 1: '0F0' is no word of the header, and no device has begun");
  EXPECT_EQ(error(head + "device 0\n  0F0 0X0"), "line 5, column 7: '0X0' is no instruction");
  EXPECT_EQ(error(head + "device 1"), "line 4, column 8: the next device is 0");
  EXPECT_EQ(error(head + "device 0\n"), "line 5, column 1: the text ends before 'device 1' of 2");
  EXPECT_EQ(error("cleave-program 2\nstages 4\ndevices 2\nmicrobatches 1\ndevice 0\n"),
            "line 3, column 9: say where the stages are: without 'place', stage s of replica r is "
            "on device r * stages + s, and that needs 4 devices");
}

TEST(Text, RefusesClaimsThatTheTextCannotKeep) {
  for (const char* claim : {"stages 1000000\nmicrobatches 1", "stages 1\nmicrobatches 2000000000",
                            "stages 2000000000\nreplicas 2000000000\nmicrobatches 2000000000",
                            "stages 1000000\nmicrobatches 1\nedges chain"})
    EXPECT_NE(user_error([&] {
                parse_program("cleave-program 2\n" + std::string(claim) + "\ndevice 0\n0F0\n");
              }).find("the text is too short for"),
              std::string::npos)
        << claim;
}

// Broken input gives an error or a program, and nothing else. The sanitizers watch.
TEST(Text, SurvivesEveryTruncationAndRandomDamage) {
  const std::string text = to_text(full_program());
  std::mt19937 random(7);
  for (std::size_t size = 0; size < text.size(); size += 7)
    EXPECT_NE(user_error([&] { read_text(text.substr(0, size)); }), "");
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    for (int k = 0; k < 4; ++k)
      damaged[random() % damaged.size()] = "0129.:><FSWhd \n#-\xff"[random() % 18];
    try {
      const Program program = read_text(damaged).program;
      verify(program);
    } catch (const UserError& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("line ")) << error.what();
    }
  }
}

}  // namespace
}  // namespace cleave::schedule
