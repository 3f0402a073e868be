// `cleave schedule` for stages that are no chain, have different numbers of replicas, or do not
// take part in every microbatch.

#include <string>
#include <utility>
#include <vector>

#include "app/run_cleave.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

using testing::Answer;
using testing::run_cleave;
using testing::TemporaryDirectory;

TEST(ScheduleOfGraph, TakesGraphsFromFilesAndFrozenStages) {
  const TemporaryDirectory directory;
  const std::string graph = directory.write("vlm.txt", "0>1 1>3  # image\n2>3  # sound\n3>4,4>5\n");
  const std::vector<std::pair<std::string, double>> cases = {
      {"--graph " + graph + " --microbatches 24", 84},
      {"--graph " + graph + " --microbatches 24 --frozen 0,1", 82}};
  for (const auto& [flags, makespan] : cases) {
    const Answer answer = run_cleave("schedule 1f1b --json " + flags);
    ASSERT_EQ(answer.exit, 0) << answer.err;
    EXPECT_EQ(nlohmann::json::parse(answer.out)["makespan"], makespan) << flags;
  }
}

// Every second microbatch of 16 has no image, so that stage 0 has nothing to do in it.
constexpr const char* kNoImageInOddMicrobatches = " --absent 0:1,0:3,0:5,0:7,0:9,0:11,0:13,0:15";

// Found by two independent simulators, without communication.
TEST(ScheduleOfGraph, GraphsTakeWhatOthersFound) {
  struct Row {
    std::string flags;
    std::string costs;  // of each stage; empty: F = I = W = 1
    double makespan;
    std::vector<double> peaks;  // of microbatches alive; empty: not known
  };
  const std::string chain = " --graph \"0>1,1>2,2>3\" --microbatches 16";
  const std::string encoder_twice = "f,i,w\n2,2,2\n1,1,1\n1,1,1\n1,1,1\n";
  // A frozen encoder of 12 layers, then 24 frozen layers that gradients go through to a projector.
  const std::string frozen = " --graph \"0>1,1>2\" --microbatches 24";
  const std::vector<Row> rows = {
      {" --graph \"0>1,1>2,2>3,3>4,4>5,5>6,6>7\" --microbatches 32",
       "",
       117,
       {8, 7, 6, 5, 4, 3, 2, 1}},
      {" --graph \"0>1,1>2,2>3,4>5,5>6,6>7,7>3\" --microbatches 32",
       "",
       108,
       {4, 3, 2, 1, 5, 4, 3, 2}},
      {" --graph \"0>1,1>3,2>3,3>4,4>5\" --microbatches 24", "", 84, {5, 4, 4, 3, 2, 1}},
      {" --graph \"0>1,0>2,1>2,2>3\" --microbatches 16", "", 57, {4, 3, 2, 1}},
      {frozen + " --frozen 0", "f,i,w\n12,0,0\n12,12,0\n12,12,0\n", 612, {}},
      {frozen, "f,i,w\n16,4,0\n10,10,0\n10,10,0\n", 520, {3, 2, 1}},
      {chain, encoder_twice, 99, {4, 3, 2, 1}},
      {chain + kNoImageInOddMicrobatches, encoder_twice, 75, {2, 3, 2, 1}},
  };
  const TemporaryDirectory directory;
  for (const Row& row : rows) {
    const std::string costs =
        row.costs.empty() ? "" : " --costs " + directory.write("costs.csv", row.costs);
    const Answer answer = run_cleave("schedule 1f1b --json" + row.flags + costs);
    ASSERT_EQ(answer.exit, 0) << answer.err;
    const auto json = nlohmann::json::parse(answer.out);
    std::vector<double> peaks;
    for (const auto& device : json["devices"]) peaks.push_back(device["peak_activations"]);
    EXPECT_EQ(json["verified"], true) << row.flags;
    EXPECT_EQ(json["makespan"], row.makespan) << row.flags;
    if (!row.peaks.empty()) {
      EXPECT_EQ(peaks, row.peaks) << row.flags;
    }
  }
}

// Two frozen encoders of 6 feed one stage that takes 3 for each of 24 microbatches.
TEST(ScheduleOfGraph, TakesDifferentNumbersOfReplicas) {
  const TemporaryDirectory directory;
  const Answer answer = run_cleave(
      "schedule 1f1b --json --stages 2 --replicas 0:2 --frozen 0 --microbatches 12 --costs " +
      directory.write("costs.csv", "f,i,w\n6,0,0\n1,1,1\n"));
  ASSERT_EQ(answer.exit, 0) << answer.err;
  const auto json = nlohmann::json::parse(answer.out);
  EXPECT_EQ(json["verified"], true);
  EXPECT_EQ(json["makespan"], 6 + 24 * 3);
  EXPECT_EQ(json["devices"].size(), 3);
}

}  // namespace
}  // namespace cleave
