// Clients that take turns at one copy of the server's layers: SplitFed's second version.

#include <fstream>

#include "app/edge_run.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::clinics_and_hub;
using testing::EdgeRun;
using testing::kLevelRate;

/// `keys` are those of [edge].
std::string rounds_in_order(int clients, const std::string& keys = "") {
  return "[edge]\nsync_every = 2\nin_order = true\n" + keys + clinics_and_hub(clients);
}

TEST(InOrder, HasOneHashOnAnyDevices) {
  const EdgeRun run(rounds_in_order(3, "sample = 2\nkeep_slots = true\n"), 3);
  const json split = run.report("", "split");

  EXPECT_EQ(split["devices"].size(), 2u);
  const json central = run.report("--central", "central");
  EXPECT_EQ(central["devices"].size(), 1u);
  EXPECT_EQ(split["weights"], central["weights"]);
  EXPECT_EQ(split["loss"], central["loss"]);
  EXPECT_EQ(run.report("--set parallel.schedule=v-min", "min")["weights"], split["weights"]);
  for (const auto& device : split["devices"])
    EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
}

TEST(InOrder, OfOneClientIsSplitTraining) {
  const std::string one = clinics_and_hub(1);
  const auto split = EdgeRun(one, 1).report(kLevelRate + "--set train.steps=4")["weights"];
  const EdgeRun rounds(rounds_in_order(1, "keep_slots = true\n"), 1);

  EXPECT_EQ(rounds.report(kLevelRate + "--set train.steps=2")["weights"], split);
  EXPECT_NE(rounds.report(kLevelRate + "--set train.steps=2 --set edge.keep_slots=false",
                          "anew")["weights"],
            split);
}

TEST(InOrder, IsNeitherAveragingNorTheTurnOfOneClient) {
  const EdgeRun run(rounds_in_order(2), 2);
  const auto both = run.report(kLevelRate + "--set train.steps=1", "both")["weights"];

  const EdgeRun averaged(
      "[edge]\nsync_every = 2\n[[edge.owner]]\nname = \"clinic-0\"\ndata = "
      "\"DIR/client0.txt\"\n[[edge.owner]]\nname = \"clinic-1\"\ndata = "
      "\"DIR/client1.txt\"\n",
      2);
  EXPECT_NE(averaged.report(kLevelRate + "--set train.steps=1")["weights"], both);
  const auto absent =
      run.report(kLevelRate + "--set train.steps=1 --set 'edge.absent=[\"clinic-1 1\"]'", "absent");
  EXPECT_NE(absent["weights"], both);
}

TEST(InOrder, GoesOnFromACheckpointWithTheBitsOfTheUndisturbedRun) {
  const EdgeRun run(rounds_in_order(2), 2);
  const auto whole = run.report(kLevelRate, "whole")["weights"];

  run.report(kLevelRate + "--set train.steps=2", "parted");
  EXPECT_EQ(run.report(kLevelRate + "--resume", "parted")["weights"], whole);
}

TEST(InOrder, SaysWhatLeavesInARound) {
  const json flow = json::parse(EdgeRun(rounds_in_order(2), 2).verify("--json").out);
  const json step = json::parse(EdgeRun(clinics_and_hub(1), 1).verify("--json").out);
  const auto bytes = [](const json& table, const std::string& from, const std::string& what) {
    std::int64_t sum = 0;
    for (const auto& row : table["flow"])
      if (row["from"] == from && row["class"] == what) sum += row["bytes"].get<std::int64_t>();
    return sum;
  };
  EXPECT_EQ(flow["verified"], true);
  EXPECT_EQ(flow["unit"], "round");
  for (const std::string client : {"clinic-0", "clinic-1"}) {
    EXPECT_EQ(bytes(flow, client, "activation"), 2 * bytes(step, "clinic-0", "activation"));
    EXPECT_EQ(bytes(flow, client, "gradient"), 2 * bytes(step, "clinic-0", "gradient"));
    EXPECT_GT(bytes(flow, client, "update"), 0);
    EXPECT_EQ(bytes(flow, client, "label"), 0);
  }
  EXPECT_EQ(bytes(flow, "hub", "weight"), 2 * bytes(flow, "clinic-0", "update"));
}

TEST(InOrder, RefusesByNameWhatDoesNotGoWithIt) {
  const auto refusal = [](const std::string& edge) {
    const Answer answer = EdgeRun(edge, 2).train("");
    EXPECT_EQ(answer.exit, 2) << answer.out;
    return answer.err;
  };
  const auto expect = [&](const std::string& edge, const std::string& sentence) {
    const std::string said = refusal(edge);
    EXPECT_NE(said.find(sentence), std::string::npos) << said;
  };
  expect(rounds_in_order(2, "codec = \"int8\"\n"), "edge.codec does not go with edge.in_order");
  expect(rounds_in_order(2, "clip = 1.0\n"), "edge.clip does not go with edge.in_order");
  expect(rounds_in_order(2, "outer = \"median\"\n"), "edge.outer does not go with edge.in_order");
  expect("[edge]\nsync_every = \"1 epoch\"\nin_order = true\n" + clinics_and_hub(2),
         "edge.sync_every is in epochs");
  expect("[edge]\nsync_every = 2\nin_order = true\n" + clinics_and_hub(2, "1"), "across a cut");
  expect("[edge]\nsync_every = 2\n" + clinics_and_hub(2), "edge.in_order");
}

}  // namespace
}  // namespace cleave
