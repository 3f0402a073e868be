// Clients that take turns at one copy of the server's layers, where all are programs of their own.

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
using testing::take_back_data;

/// `keys` are those of [edge].
std::string in_order(int clients, const std::string& keys, const std::string& hub = "",
                     const std::string& layers = "[1, 1]") {
  return "[edge]\nin_order = true\n" + keys + clinics_and_hub(clients, layers) + hub;
}

/// The sums of a table's bytes that leave an owner as this class.
std::int64_t bytes_in(const json& table, const std::string& from, const std::string& what) {
  std::int64_t sum = 0;
  for (const json& row : table["flow"])
    if (row["from"] == from && row["class"] == what) sum += row["bytes"].get<std::int64_t>();
  return sum;
}

json json_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return json::parse(text.str());
}

/// What the server and every client report of a run that all of them join.
std::vector<json> served_reports(const EdgeRun& run, int count, std::vector<std::string> flags) {
  ServedOwners served(run, std::move(flags));
  std::vector<Process*> clients;
  for (int client = 0; client < count; ++client)
    clients.push_back(&served.join(client, {"--json"}));
  std::vector<json> reports = {served.report()};
  for (Process* client : clients) {
    const Answer answer = client->wait(kOwnersPatience);
    EXPECT_EQ(answer.exit, 0) << answer.err;
    reports.push_back(json::parse(answer.out));
  }
  return reports;
}

TEST(ServedInOrder, ShowsTheLayersOfEveryClient) {
  const EdgeRun run(in_order(3, "sync_every = 1\n"), 3);
  hand_out_data(run, 3);
  ServedOwners served(run, {"--set", "train.steps=100000"});
  for (int client = 0; client < 3; ++client) served.join(client);
  ASSERT_TRUE(served.server().prints("step 1", kOwnersPatience)) << served.server().err();

  const json devices = served.status()["devices"];

  ASSERT_EQ(devices.size(), 4u);
  EXPECT_NE(devices[0]["stages"], devices[1]["stages"]);
  EXPECT_NE(devices[1]["stages"], "");
  EXPECT_EQ(devices[2]["stages"], devices[1]["stages"]);
  EXPECT_EQ(devices[3]["stages"], devices[1]["stages"]);
}

TEST(ServedInOrder, HasTheWeightsOfThreadsAndOfOneDevice) {
  const std::string ways[] = {
      "sync_every = 2\n", "sync_every = 3\nsample = 2\nkeep_slots = true\nouter = \"nesterov\"\n",
      "sync_every = 2\ndrop = 0.3\nquorum = 1\nsums = \"fixed\"\nouter = \"adam\"\n"};
  for (const std::string& way : ways) {
    const EdgeRun run(in_order(3, way), 3);
    const json threads = run.report("", "threads");
    const json central = run.report("--central", "central");
    hand_out_data(run, 3);

    const std::vector<json> reports = served_reports(run, 3, {});

    EXPECT_EQ(reports[0]["loss"], threads["loss"]) << way;
    EXPECT_EQ(reports[0]["rounds"]["participants"], threads["rounds"]["participants"]) << way;
    EXPECT_EQ(reports[0]["rounds"]["sent_bytes"], threads["rounds"]["sent_bytes"]) << way;
    EXPECT_EQ(central["weights"], threads["weights"]) << way;
    for (const json& report : reports) EXPECT_EQ(report["weights"], threads["weights"]) << way;
    ASSERT_EQ(reports[0]["devices"].size(), 1u);
    EXPECT_EQ(reports[0]["devices"][0]["peak_bytes"], reports[0]["devices"][0]["planned_bytes"]);
    EXPECT_EQ(reports[0]["devices"][0]["parameters"], central["devices"][0]["parameters"]);
  }
}

TEST(ServedInOrder, SendsWhatTheSignedTableSays) {
  const EdgeRun run(in_order(2, "sync_every = 2\n"), 2);
  hand_out_data(run, 2);
  std::ofstream(run.path("policy.toml"))
      << "owner = \"clinic-0\"\nsends = [\"activation\", \"gradient\", \"update\", "
         "\"statistic\"]\nto = [\"hub\"]\nlayers = 1\n";

  ServedOwners served(run, {});
  Process& checked = served.join(0, {"--policy", run.path("policy.toml")});
  served.join(1);
  const json report = served.report();

  EXPECT_EQ(checked.wait(kOwnersPatience).exit, 0) << checked.err();
  const json table = json_of(run.path("clinic-0.record/flow.json"));
  EXPECT_EQ(table["verified"], true);
  EXPECT_EQ(table["unit"], "round");
  EXPECT_EQ(table, json::parse(run.verify("--json").out));
  EXPECT_TRUE(fs::exists(run.path("clinic-0.record/flow.json.signature")));
  const std::int64_t rounds = report["rounds"]["participants"].get<std::int64_t>() / 2;
  EXPECT_EQ(report["rounds"]["sent_bytes"], rounds * (bytes_in(table, "clinic-0", "update") +
                                                      bytes_in(table, "clinic-1", "update")));
  // The server reports what it sent in a step; a round has two for each of the two clients.
  EXPECT_EQ(4 * report["devices"][0]["sent"]["messages"].get<std::int64_t>(),
            bytes_in(table, "hub", "activation") + bytes_in(table, "hub", "gradient"));
}

TEST(ServedInOrder, IsRefusedByTheOwnerWhosePolicyLetsNoUpdateLeave) {
  const EdgeRun run(in_order(2, "sync_every = 2\n"), 2);
  hand_out_data(run, 2);
  std::ofstream(run.path("policy.toml"))
      << "owner = \"clinic-0\"\nsends = [\"activation\", \"gradient\", \"statistic\"]\n";
  ServedOwners served(run, {"--set", "train.elastic=false"});
  served.join(1);

  const Answer joined = served.join(0, {"--policy", run.path("policy.toml")}).wait(kOwnersPatience);

  EXPECT_EQ(joined.exit, 2) << joined.err;
  EXPECT_NE(joined.err.find("the policy of clinic-0 does not let update leave it: "),
            std::string::npos)
      << joined.err;
  EXPECT_EQ(served.server().wait(kOwnersPatience).exit, 4);
}

TEST(ServedInOrder, GoesOnFromItsLastRoundAfterTheServerHasEnded) {
  const EdgeRun run(in_order(2, "sync_every = 2\nkeep_slots = true\nouter = \"momentum\"\n"), 2);
  const std::string& level = testing::kLevelRate;
  const json whole = run.report(level, "whole");
  hand_out_data(run, 2);
  const std::vector<std::string> keys = {"--set", "train.schedule=constant", "--set",
                                         "train.warmup=0"};
  std::vector<std::string> shorter = keys, longer = keys;
  shorter.insert(shorter.end(), {"--set", "train.steps=2"});
  longer.emplace_back("--resume");

  const json part = served_reports(run, 2, shorter)[0];
  for (const char* client : {"clinic-0.keys", "clinic-1.keys"}) fs::remove_all(run.path(client));

  EXPECT_NE(part["weights"], whole["weights"]);
  EXPECT_EQ(served_reports(run, 2, longer)[0]["weights"], whole["weights"]);
}

/// Kills clinic-1 in the midst of rounds and lets it join again; the weights are those of a run in
/// which it was absent meanwhile.
void expect_a_killed_client_was_absent(const std::string& keys) {
  const EdgeRun run(in_order(3, "sync_every = 4\nquorum = 2\n" + keys), 3);
  hand_out_data(run, 3);
  ServedOwners served(run, {"--set", "train.steps=30"});
  std::vector<Process*> clients;
  for (int client = 0; client < 3; ++client) clients.push_back(&served.join(client));
  ASSERT_TRUE(served.server().prints("step 3: saved", kOwnersPatience)) << served.server().err();
  clients[1]->signal(SIGKILL);
  ASSERT_TRUE(served.server().prints(": without clinic-1", kOwnersPatience))
      << served.server().err();
  served.join(1);
  ASSERT_TRUE(served.server().prints("all clients are here", kOwnersPatience))
      << served.server().err();
  const json report = served.report();

  take_back_data(run, 3);
  std::ifstream config(run.path("hub/config.toml"));
  std::string line, absent;
  while (std::getline(config, line))
    if (line.starts_with("absent = ")) absent = line.substr(9);
  EXPECT_NE(absent.find("clinic-1"), std::string::npos) << absent;
  const json declared =
      run.report("--set train.steps=30 --set 'edge.absent=" + absent + "'", "declared");
  EXPECT_EQ(report["weights"], declared["weights"]) << absent;
  EXPECT_NE(report["weights"], run.report("--set train.steps=30", "whole")["weights"]);
}

TEST(ServedInOrder, GoesOnWithoutAClientThatIsKilledAsIfItHadBeenAbsent) {
  expect_a_killed_client_was_absent("");
}

TEST(ServedInOrder, LetsAClientThatIsBackGoOnWithWhatItKept) {
  expect_a_killed_client_was_absent("keep_slots = true\n");
}

TEST(ServedInOrder, RefusesByNameWhatDoesNotGoWithIt) {
  const auto refusal = [](const std::string& tables, const std::string& flags = "") {
    const EdgeRun run(tables, 2);
    const Answer answer =
        testing::run_cleave("serve " + run.path("run.toml") + " --state " + run.path("server") +
                            " --listen 127.0.0.1:0 " + flags);
    EXPECT_EQ(answer.exit, 2) << answer.err;
    return answer.err;
  };
  EXPECT_EQ(refusal(in_order(2, "sync_every = 2\n", "devices = 2\n")),
            "cleave: owner hub has 2 devices, and over a network a server at which clients take "
            "turns has one; leave devices out, or run all owners on threads with cleave train\n");
  EXPECT_EQ(refusal(in_order(2, "sync_every = 2\n", "", "1") + "sends = [\"update\"]\n",
                    "--set model.tie_embeddings=false"),
            "cleave: owner clinic-0 has the first layers only, and over a network nobody but the "
            "owner has the labels that the server's loss would need; give it the last ones too, as "
            "in layers = [1, 1], or run all owners on threads with cleave train\n");
  EXPECT_EQ(refusal(in_order(2, "sync_every = 2\n"), "--set data.validation=held.txt"),
            "cleave: data.validation is a set of the server's, and where clients take turns at its "
            "layers nobody has the whole model to evaluate it with; leave it out, or hold out a "
            "share of the clients' data\n");
}

TEST(ServedInOrder, NeedsRoomOnTheServerForItsLayersAndTheClients) {
  const EdgeRun run(in_order(1, "sync_every = 2\n", "memory = \"800KiB\"\n"), 1);
  hand_out_data(run, 1);
  ServedOwners served(run, {"--set", "train.elastic=false"});
  served.join(0);

  const Answer answer = served.server().wait(kOwnersPatience);

  EXPECT_EQ(answer.exit, 3) << answer.err;
  EXPECT_NE(answer.err.find(" to hold the clients' between their turns, "), std::string::npos)
      << answer.err;
}

}  // namespace
}  // namespace cleave
