#include "cleave/schedule/torch_csv.h"

#include "support/errors.h"
#include <gtest/gtest.h>

#include "cleave/schedule/generators.h"
#include "cleave/schedule/passes.h"
#include "cleave/schedule/text.h"
#include "cleave/schedule/verifier.h"

namespace cleave::schedule {
namespace {

using cleave::testing::user_error;

TEST(Csv, WritesOneRowPerDevice) {
  const Program program = lower(generate("zb-h1", {.devices = 2, .microbatches = 2}), {});
  EXPECT_EQ(to_torch_csv(program),
            "0F0,0F1,0I0,0W0,0I1,0W1\n"
            "1F0,1I0,1F1,1I1,1W0,1W1\n");
}

TEST(Csv, RoundTripsEverySchedule) {
  for (const auto schedule : schedule_names()) {
    Program program = generate(schedule, {.devices = 3, .microbatches = 7});
    const Program read = parse_torch_csv(to_torch_csv(program));
    program.schedule = "csv";
    EXPECT_EQ(read, program) << schedule;
  }
}

// As Python's csv module writes what torch holds: idle cells, CRLF, and F and B that overlap.
TEST(Csv, TakesTheQuirksOfTorch) {
  const Program program = parse_torch_csv(
      "0F0,0F1,,3F0,3B0,(0F2;3B1)OVERLAP_F_B,,\r\n"
      ",1F0, 2F0 ,\"1F1\",(2F1; 2B0)OVERLAP_F_B,2B1\r\n");

  EXPECT_EQ(to_torch_csv(program), "0F0,0F1,3F0,3B0,0F2,3B1\n1F0,2F0,1F1,2F1,2B0,2B1\n");
  EXPECT_EQ(program.placement, (std::vector<std::vector<int>>{{0}, {1}, {1}, {0}}));
  EXPECT_EQ(program.microbatches, 3);
}

// What torch writes unless it is told otherwise ("compute_comms").
TEST(Csv, TakesTheComputeOfTheLoweredForm) {
  const Program program = parse_torch_csv(
      "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n"
      "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1REDUCE_GRAD\n");

  EXPECT_EQ(to_torch_csv(program), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_TRUE(verify_compute(program).empty());
}

TEST(Csv, NamesLineAndColumn) {
  const auto error = [](std::string_view text) {
    return user_error([&] { parse_torch_csv(text); });
  };
  EXPECT_EQ(error(",,\n"), "line 2, column 1: the file has no action");
  EXPECT_EQ(error("0REDUCE_GRAD\n"), "line 2, column 1: the file has no action");
  EXPECT_EQ(error("0F0,0SEND_X0\n"),
            "line 1, column 5: '0SEND_X0' is no action; one looks like 2F0: stage, F I W or B, "
            "microbatch; or like 2SEND_F0, 2REDUCE_GRAD");
  for (const std::string wrong : {"SEND_F0", "0SEND_F", "0UNSHARD1", "0SEND_F0x"})
    EXPECT_TRUE(error("0F0," + wrong).starts_with("line 1, column 5: '" + wrong + "' is no action"))
        << wrong;
  EXPECT_EQ(error("0F0,1SEND_F0\n1F0\n"),
            "line 2, column 1: '1F0' is on row 2, but stage 1 is on row 1");
  EXPECT_EQ(error("0F0,99999999999999999999SEND_F0"),
            "line 1, column 5: '99999999999999999999SEND_F0' names a stage that cannot be "
            "complete");
  EXPECT_EQ(error("0F0\n1F0,0B0\n"),
            "line 2, column 5: '0B0' is on row 2, but stage 0 is on row 1");
  EXPECT_EQ(error("0F0\n2F0\n"),
            "line 3, column 1: the file has no action of stage 1, but some of stage 2");
  EXPECT_EQ(error("0F0,0F7\n\n\n\n\n\n\n\n\n\n"),
            "line 11, column 1: the file has 2 actions, but 1 stages x 8 microbatches need at least "
            "one each");
  EXPECT_EQ(error("0F0,(0F1;3B0)TOGETHER"),
            "line 1, column 5: '(0F1;3B0)TOGETHER' is no action; a pair looks like "
            "(0F1;3B0)OVERLAP_F_B");
  EXPECT_EQ(error("1000000F0"),
            "line 1, column 1: '1000000F0' names a stage that cannot be complete");
  EXPECT_EQ(error("0F2147483647"),
            "line 1, column 1: '0F2147483647' names a microbatch that cannot be complete");
}

TEST(Csv, KeepsRowsWhoseStagesOnlyExchange) {
  const Program program = parse_torch_csv("0F0,0B0\n,1REDUCE_GRAD\n,\n");
  EXPECT_EQ(program.devices, 2);
  EXPECT_EQ(program.placement, (std::vector<std::vector<int>>{{0}, {1}}));
  EXPECT_EQ(parse_program(to_text(program)), program);
  EXPECT_FALSE(verify(program, Level::Compute).empty());
}

TEST(Csv, HasNoWordsForReplicasAndSegments) {
  Program program = generate("gpipe", {.devices = 1, .microbatches = 1});
  program.segments = {2};
  EXPECT_EQ(user_error([&] { to_torch_csv(lower(program, {.replicas = 2})); }),
            "the CSV form has no replicas, and the program has 2");
  EXPECT_EQ(user_error([&] { to_torch_csv(lower(program, {.grain = Grain::Segment})); }),
            "the CSV form has whole stages only, and the program runs 0.0F0");
}

}  // namespace
}  // namespace cleave::schedule
