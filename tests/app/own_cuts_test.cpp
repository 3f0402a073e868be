// Split training in which every client has a cut of its own.

#include <fstream>

#include "app/expect_planned.h"
#include "app/served_owners.h"
#include <gtest/gtest.h>
#include <signal.h>

namespace cleave {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::EdgeRun;
using testing::expect_planned;
using testing::ServedOwners;

/// One clinic for each of `layers`, and a hub.
std::string cut(const std::vector<std::string>& layers, const std::string& more = "") {
  std::string tables;
  for (std::size_t client = 0; client < layers.size(); ++client)
    tables += testing::clinic(static_cast<int>(client), "layers = " + layers[client] + "\n" + more);
  return tables + testing::kHub;
}

const std::string kLabelsLeave = "sends = [\"label\", \"activation\", \"update\", \"statistic\"]\n";

TEST(OwnCuts, GiveTheWeightsOfOneDeviceWithAllTheData) {
  const std::vector<std::vector<std::string>> all = {
      {"[1, 1]", "[2, 1]"}, {"[2, 1]", "[1, 2]"}, {"[1, 3]", "[3, 0]", "[2, 2]", "[1, 1]"}};
  for (const auto& layers : all) {
    const EdgeRun run(cut(layers), static_cast<int>(layers.size()));
    const std::string deep = "--set model.layers=8 ";
    const json apart = run.report(deep, "split");
    const json central = run.report(deep + "--central", "central");

    EXPECT_EQ(apart["weights"], central["weights"]) << layers[0] << " and " << layers[1];
    EXPECT_EQ(apart["loss"], central["loss"]);
    expect_planned(apart);
    EXPECT_EQ(run.report(deep + "--set parallel.schedule=v-min", "min")["weights"],
              central["weights"]);
  }
}

TEST(OwnCuts, GiveTheSameWeightsWhereLabelsLeaveAndTheServerHasSeveralDevices) {
  const EdgeRun run(cut({"1", "3"}, kLabelsLeave) + "devices = 2\n", 2);
  const std::string deep = "--set model.layers=6 ";
  const auto weights = run.report(deep + "--central", "central")["weights"];

  for (const std::string schedule : {"1f1b", "gpipe", "zb-h1", "zb-h2"}) {
    const json report = run.report(deep + "--set parallel.schedule=" + schedule, schedule);
    EXPECT_EQ(report["weights"], weights) << schedule;
    expect_planned(report);
  }
}

TEST(OwnCuts, GiveOneHashWithCodecsAtTheCutsOfAll) {
  const EdgeRun run(
      "[edge]\ncodec = {forward = \"int8\", backward = \"bf16\"}\n" + cut({"[1, 1]", "[2, 1]"}), 2);
  const json apart = run.report("--set model.layers=6", "split");
  const json central = run.report("--set model.layers=6 --central", "central");

  EXPECT_EQ(apart["weights"], central["weights"]);
  expect_planned(apart);
}

TEST(OwnCuts, AreInTheTableOfWhatLeavesWhom) {
  const EdgeRun run(cut({"[1, 1]", "[2, 1]"}), 2);
  const json flow = json::parse(run.verify("--set model.layers=6 --json").out);
  const json report = run.report("--set model.layers=6");
  const auto bytes = [&](const std::string& from, const std::string& to, const std::string& what) {
    for (const json& row : flow["flow"])
      if (row["from"] == from && row["to"] == json::array({to}) && row["class"] == what)
        return row["bytes"].get<std::int64_t>();
    return std::int64_t{0};
  };

  EXPECT_EQ(flow["verified"], true);
  EXPECT_EQ(bytes("clinic-0", "hub", "update"), 0) << "the hub has no layer of clinic-0's";
  const std::int64_t layer = 12 * 32 * 32 + 13 * 32;  // elements of a block
  EXPECT_EQ(bytes("clinic-1", "hub", "update"), layer * 4);
  EXPECT_EQ(bytes("hub", "clinic-1", "update"), layer * 4);
  EXPECT_EQ(bytes("clinic-0", "clinic-1", "update"), bytes("clinic-1", "clinic-0", "update"));
  for (const char* clinic : {"clinic-0", "clinic-1"}) {
    std::int64_t sent = 0;
    for (const json& row : flow["flow"])
      if (row["from"] == clinic) sent += row["bytes"].get<std::int64_t>();
    const int device = clinic == std::string("clinic-0") ? 0 : 2;
    EXPECT_EQ(report["devices"][device]["bytes_sent"], sent) << clinic;
  }
}

TEST(OwnCuts, AreHeldAgainstThePolicyOfEach) {
  const EdgeRun run(cut({"[1, 1]", "[2, 1]"}), 2);
  const auto verify = [&](const std::string& owner) {
    std::ofstream(run.path("policy.toml"))
        << "owner = \"" << owner
        << "\"\nsends = [\"activation\", \"gradient\", \"update\", \"statistic\"]\nlayers = 2\n";
    return run.verify("--set model.layers=6 --policy " + run.path("policy.toml"));
  };

  EXPECT_EQ(verify("clinic-1").exit, 0);
  const Answer shallow = verify("clinic-0");
  EXPECT_EQ(shallow.exit, 1);
  EXPECT_NE(shallow.out.find("the policy of clinic-0 wants 2 layers of its own before what it "
                             "sends, and the run gives it 1\n"),
            std::string::npos)
      << shallow.out;
}

TEST(OwnCuts, AreRefusedWhereTheyMakeNoLayout) {
  const auto refused = [](const std::string& tables, const std::string& flags = "") {
    const Answer answer = EdgeRun(tables, 2).train(flags);
    EXPECT_EQ(answer.exit, 2) << answer.err;
    return answer.err;
  };
  EXPECT_EQ(refused(cut({"[1, 1]", "1"})),
            "cleave: owner clinic-0 has layers at both ends, and owner clinic-1 the first layers "
            "only; clients may have different numbers of layers, but all at the same ends\n");
  EXPECT_EQ(refused(cut({"[1, 1]", "[2, 1]"})),
            "cleave: the layers of clinic-1 leave 1 of model.layers 4 to the server, which has 2 "
            "stages, twice its devices; leave it at least one for each\n");
  EXPECT_EQ(refused("[edge]\nsync_every = 2\nin_order = true\n" + cut({"[1, 1]", "[2, 1]"}),
                    "--set model.layers=6"),
            "cleave: owner clinic-1 and owner clinic-0 have different layers, and with "
            "edge.in_order what is not the server's is averaged; give them the same, or leave "
            "edge.in_order out\n");
}

TEST(ServedOwnCuts, HaveTheWeightsOfThreadsAndGoOnAfterALoss) {
  const EdgeRun run(cut({"[2, 1]", "[1, 2]"}), 2);
  const std::string longer =
      "--set model.layers=6 --set train.steps=60 --set train.checkpoint_every=10";
  const json threads = run.report(longer, "threads");
  testing::hand_out_data(run, 2);
  ServedOwners served(run, {"--set", "model.layers=6", "--set", "train.steps=60", "--set",
                            "train.checkpoint_every=10"});
  served.join(0);
  testing::Process& lost = served.join(1);
  ASSERT_TRUE(served.server().prints("step 10: saved", testing::kOwnersPatience))
      << served.server().err();

  lost.signal(SIGKILL);
  if (served.server().prints("waiting for clinic-1", testing::kOwnersPatience)) served.join(1);
  const json report = served.report();

  EXPECT_EQ(report["weights"], threads["weights"]);
  EXPECT_EQ(report["validation_loss"], threads["validation_loss"]);
  for (const json& device : report["devices"])
    EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
}

}  // namespace
}  // namespace cleave
