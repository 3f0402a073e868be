// A split run whose owners are programs of their own, each with its data and its part of the model.

#include <filesystem>
#include <fstream>
#include <sstream>

#include "app/served_owners.h"
#include <gtest/gtest.h>
#include <signal.h>

namespace cleave {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Answer;
using testing::clinics_and_hub;
using testing::EdgeRun;
using testing::hand_out_data;
using testing::kOwnersPatience;
using testing::Process;
using testing::ServedOwners;

std::string text_of_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(ServedSplit, HasTheWeightsOfThreadsAndOfOneDevice) {
  for (const int clients : {1, 4}) {
    const EdgeRun run(clinics_and_hub(clients), clients);
    const json threads = run.report("", "threads");
    const json central = run.report("--central", "central");
    hand_out_data(run, clients);

    ServedOwners served(run, {});
    for (int client = 0; client < clients; ++client) served.join(client);
    const json report = served.report();

    EXPECT_EQ(report["weights"], threads["weights"]) << clients << " clients";
    EXPECT_EQ(report["weights"], central["weights"]);
    EXPECT_EQ(report["loss"], central["loss"]);
    EXPECT_EQ(report["validation_loss"], central["validation_loss"]);
    EXPECT_EQ(report["devices"].size(), 2u * clients);
    for (const json& device : report["devices"])
      EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
  }
}

TEST(ServedSplit, IsRefusedWhereTheServerWouldNeedLabels) {
  std::string tables = clinics_and_hub(1);
  tables.replace(tables.find("[1, 1]"), 6, "1\nsends = [\"label\", \"activation\", \"update\"]");
  const EdgeRun run(tables, 1);

  const Answer answer = testing::run_cleave("serve " + run.path("run.toml") + " --state " +
                                            run.path("server") + " --listen 127.0.0.1:0");

  EXPECT_EQ(answer.exit, 2);
  EXPECT_EQ(answer.err,
            "cleave: owner clinic-0 has the first layers only, and over a network nobody but the "
            "owner has the labels that the server's loss would need; give it the last ones too, as "
            "in layers = [1, 1], or run all owners on threads with cleave train\n");
}

TEST(ServedSplit, LeavesEveryOwnerItsPartAndASignedTable) {
  const EdgeRun run(clinics_and_hub(1), 1);
  hand_out_data(run, 1);
  ServedOwners served(run, {});
  const Answer joined = served.join(0).wait(kOwnersPatience);
  ASSERT_EQ(joined.exit, 0) << joined.err;
  served.report();

  const auto weights = [&](const std::string& owner) {
    return text_of_file(run.path(owner + "/checkpoints/latest/model.safetensors"));
  };
  EXPECT_NE(weights("clinic-0").find("wte.weight"), std::string::npos);
  EXPECT_EQ(weights("hub").find("wte.weight"), std::string::npos);
  EXPECT_NE(weights("hub").find("h.1."), std::string::npos);
  EXPECT_EQ(weights("clinic-0").find("h.1."), std::string::npos);
  const json flow = json::parse(text_of_file(run.path("clinic-0.record/flow.json")));
  EXPECT_EQ(flow["verified"], true);
  EXPECT_EQ(text_of_file(run.path("clinic-0.record/flow.json.signature")).size(), 129u);
  EXPECT_TRUE(fs::exists(run.path("clinic-0.record/flow.json.signer.pem")));
}

TEST(ServedSplit, IsRefusedByTheOwnerWhosePolicyDoesNotAllowIt) {
  const EdgeRun run(clinics_and_hub(1), 1);
  hand_out_data(run, 1);
  std::ofstream(run.path("policy.toml"))
      << "owner = \"clinic-0\"\nsends = [\"activation\", \"update\", \"statistic\"]\n";
  ServedOwners served(run, {"--set", "train.elastic=false"});

  const Answer joined = served.join(0, {"--policy", run.path("policy.toml")}).wait(kOwnersPatience);
  const Answer server = served.server().wait(kOwnersPatience);

  EXPECT_EQ(joined.exit, 2) << joined.err;
  EXPECT_NE(joined.err.find("the policy of clinic-0 does not let gradient leave it: "),
            std::string::npos)
      << joined.err;
  EXPECT_EQ(server.exit, 4);
  EXPECT_NE(server.err.find("the policy of clinic-0 does not let gradient leave it: "),
            std::string::npos)
      << server.err;
  EXPECT_FALSE(fs::exists(run.path("clinic-0")));
}

TEST(ServedSplit, WaitsForAnOwnerThatWasLostAndGoesOnWithItsPart) {
  const EdgeRun run(clinics_and_hub(2), 2);
  const std::string longer = "--set train.steps=400 --set train.checkpoint_every=10";
  const auto weights = run.report(longer, "undisturbed")["weights"];
  hand_out_data(run, 2);
  ServedOwners served(run, {"--set", "train.steps=400", "--set", "train.checkpoint_every=10"});
  served.join(0);
  Process& lost = served.join(1);
  ASSERT_TRUE(served.server().prints("step 10: saved", kOwnersPatience)) << served.server().err();

  lost.signal(SIGKILL);
  ASSERT_TRUE(served.server().prints("waiting for clinic-1", kOwnersPatience))
      << served.server().err();
  served.join(1);

  EXPECT_EQ(served.report()["weights"], weights);
  EXPECT_NE(served.server().err().find("resumed"), std::string::npos) << served.server().err();
}

TEST(ServedSplit, LetsNobodyInButTheRunsOwners) {
  const EdgeRun run(clinics_and_hub(2), 2);
  hand_out_data(run, 2);
  ServedOwners served(run, {});
  const auto refused = [&](int client, std::vector<std::string> flags) {
    const Answer answer = served.join(client, std::move(flags)).wait(kOwnersPatience);
    EXPECT_EQ(answer.exit, 2) << answer.err;
    return answer.err;
  };
  EXPECT_NE(refused(7, {}).find("it joins as owner \"clinic-7\", and the clients of this run are "
                                "clinic-0, clinic-1; pass one of them with --owner"),
            std::string::npos);
  EXPECT_NE(refused(0, {"--name", "phone"})
                .find("it joins as owner \"clinic-0\", and its certificate is of \"phone\"; enrol "
                      "it with --name clinic-0"),
            std::string::npos);
  const Answer dataless = testing::run_cleave("join 127.0.0.1:1 --owner clinic-0");
  EXPECT_EQ(dataless.exit, 2);
  EXPECT_EQ(dataless.err,
            "cleave: --owner and --data belong together: whose device this is, and where its data "
            "are\n");
  served.server().signal(SIGKILL);
}

}  // namespace
}  // namespace cleave
