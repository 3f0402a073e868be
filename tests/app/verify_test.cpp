#include <algorithm>
#include <string>

#include "app/run_cleave.h"
#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

using testing::Answer;
using testing::read_text;
using testing::run_cleave;
using testing::TemporaryDirectory;

TEST(VerifyCommand, AcceptsWhatScheduleWrites) {
  const TemporaryDirectory directory;
  for (const std::string kind : {"gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2",
                                 "zbv", "v-half", "v-min", "dualpipev"}) {
    for (const std::string name : {"program.txt", "program.csv"}) {
      const std::string file = directory.path(name);
      ASSERT_EQ(
          run_cleave("schedule " + kind + " --stages 3 --microbatches 7 --output " + file).exit, 0);

      const Answer answer = run_cleave("verify " + file);

      EXPECT_EQ(answer.exit, 0) << kind << " " << name << ": " << answer.err << answer.out;
      EXPECT_TRUE(answer.out.starts_with("verified")) << answer.out;
    }
  }
}

TEST(VerifyCommand, AcceptsFinalProgramsAsTheyAre) {
  const std::string write = "schedule zbv --stages 2 --microbatches 3 --format text --final";
  EXPECT_NE(run_cleave(write).out.find("SEND:"), std::string::npos);

  const Answer answer = run_cleave(write + " | " + testing::cleave_binary() + " verify -");

  EXPECT_EQ(answer.exit, 0) << answer.out << answer.err;
}

TEST(VerifyCommand, ReadsStandardInput) {
  const Answer answer = run_cleave("schedule 1f1b --stages 2 --microbatches 2 --format text | " +
                                   testing::cleave_binary() + " verify -");

  EXPECT_EQ(answer.exit, 0) << answer.err;
  EXPECT_TRUE(answer.out.starts_with("verified"));
}

TEST(VerifyCommand, ReadsAProgramWrittenByHand) {
  const TemporaryDirectory directory;
  const std::string text = "# mine\n\n" + run_cleave(
                                              "schedule 1f1b --stages 2 --microbatches 2 "
                                              "--format text")
                                              .out;
  const std::string file = directory.write("mine", text);
  const std::string changed =
      directory.write("changed", text.substr(0, text.rfind("hash")) + "hash 0123456789abcdef\n");

  EXPECT_EQ(run_cleave("verify " + file).err, "");
  const Answer answer = run_cleave("verify " + changed);

  EXPECT_EQ(answer.exit, 0) << answer.err;
  EXPECT_NE(answer.err.find("was changed after its hash was written"), std::string::npos);
}

TEST(VerifyCommand, PrintsOneLinePerViolation) {
  const TemporaryDirectory directory;
  const std::string file = directory.write("dead.csv", "0F0,0F0,0B0\n1B0,1F0\n");

  const Answer answer = run_cleave("verify " + file);

  EXPECT_EQ(answer.exit, 1);
  EXPECT_EQ(answer.err, "");
  EXPECT_NE(answer.out.find("device 0, instruction 1 (0F0): runs a second time"), std::string::npos)
      << answer.out;
  EXPECT_EQ(answer.out.find("verified"), std::string::npos);
  const auto json = nlohmann::json::parse(run_cleave("verify --json " + file).out);
  EXPECT_EQ(json["verified"], false);
  EXPECT_EQ(std::ssize(json["violations"]), std::ranges::count(answer.out, '\n'));
}

TEST(VerifyCommand, SaysWhereAFileIsMalformed) {
  const TemporaryDirectory directory;
  const std::string file = directory.write("bad.csv", "0F0,0X0\n");

  const Answer answer = run_cleave("verify " + file);

  EXPECT_EQ(answer.exit, 2);
  EXPECT_EQ(answer.out, "");
  EXPECT_NE(answer.err.find("bad.csv:1:5: "), std::string::npos) << answer.err;
  EXPECT_EQ(run_cleave("verify /nowhere").exit, 2);
}

TEST(ScheduleCommand, DrawsAScheduleWrittenByHand) {
  const TemporaryDirectory directory;
  const std::string file = directory.write("mine.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");

  const Answer answer = run_cleave("schedule --json " + file);

  ASSERT_EQ(answer.exit, 0) << answer.err;
  EXPECT_EQ(nlohmann::json::parse(answer.out)["makespan"], 9);
  const Answer clash = run_cleave("schedule --stages 3 " + file);
  EXPECT_EQ(clash.exit, 2);
  EXPECT_NE(clash.err.find("--stages 3 does not agree with"), std::string::npos) << clash.err;
}

TEST(Verify, SaysThatBackwardsOfTorchsLoopedBfsChangePlaces) {
  const TemporaryDirectory directory;
  const std::string file = directory.write("bfs.csv", "0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n");

  const Answer answer = run_cleave("verify " + file);

  EXPECT_EQ(answer.exit, 0) << answer.err;
  EXPECT_EQ(answer.err, "cleave: " + file +
                            " has backwards of a stage in another order than that of microbatches; "
                            "they change places, so that sums keep one order\n");
}

TEST(ScheduleCommand, RefusesToDrawWhatIsNotSound) {
  const TemporaryDirectory directory;
  const std::string file = directory.write("mine.csv", "0F0,0B0\n1B0,1F0\n");

  const Answer answer = run_cleave("schedule --json " + file);

  EXPECT_EQ(answer.exit, 1);
  EXPECT_EQ(nlohmann::json::parse(answer.out)["verified"], false);
  EXPECT_NE(answer.err.find("device 1"), std::string::npos) << answer.err;
}

}  // namespace
}  // namespace cleave
