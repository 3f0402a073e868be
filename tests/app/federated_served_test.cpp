// Rounds whose clients are programs of their own: each trains where its data are, all at once.

#include <filesystem>
#include <fstream>

#include "app/served_owners.h"
#include <gtest/gtest.h>
#include <signal.h>

namespace cleave {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::EdgeRun;
using testing::hand_out_data;
using testing::kOwnersPatience;
using testing::Process;
using testing::ServedOwners;
using testing::take_back_data;

/// Clients with data of their own; `keys` are those of [edge].
std::string banks(const std::string& keys, int clients = 3) {
  return "[data]\nvalidation = 0.1\n[edge]\n" + keys + testing::clinics(clients);
}

/// What the server reports of a run whose clients all join.
json served_report(const EdgeRun& run, int count) {
  hand_out_data(run, count);
  ServedOwners served(run, {});
  std::vector<Process*> clients;
  for (int client = 0; client < count; ++client) clients.push_back(&served.join(client));
  json report = served.report();
  for (Process* client : clients) EXPECT_EQ(client->wait(kOwnersPatience).exit, 0);
  take_back_data(run, count);
  return report;
}

void expect_the_same(const json& report, const json& in_turn, const std::string& way) {
  EXPECT_EQ(report["weights"], in_turn["weights"]) << way;
  EXPECT_EQ(report["loss"], in_turn["loss"]) << way;
  EXPECT_EQ(report["rounds"]["participants"], in_turn["rounds"]["participants"]) << way;
  EXPECT_EQ(report["rounds"]["sent_bytes"], in_turn["rounds"]["sent_bytes"]) << way;
  EXPECT_GT(report["rounds"]["seconds"], 0) << way;
  EXPECT_GT(report["rounds"]["predicted_seconds"], 0) << way;
  EXPECT_TRUE(in_turn["rounds"]["predicted_seconds"].is_null()) << way;
}

TEST(ServedRounds, HaveTheWeightsOfRoundsPlayedInTurn) {
  const std::string ways[] = {
      "sync_every = 2\nsums = \"fixed\"\nouter = \"nesterov\"\nclip = 0.1\n",
      "sync_every = \"1 epoch\"\nsample = 2\nproximal = 0.1\n",
      "sync_every = 2\nouter = \"median\"\n",
      "sync_every = 2\nouter = \"krum\"\nfaulty = 0\ncodec = \"bf16\"\n"};
  for (const std::string& way : ways) {
    const EdgeRun run(banks(way), 3);
    const json in_turn = run.report("", "turn");
    expect_the_same(served_report(run, 3), in_turn, way);
  }
}

TEST(ServedRounds, AskTheServerForTheWeightsAndTheOuterSlotsAlone) {
  for (const auto& [outer, slots] : {std::pair("mean", 0), std::pair("adam", 2)}) {
    const EdgeRun run(banks("sync_every = 2\nouter = \"" + std::string(outer) + "\"\n"), 3);
    hand_out_data(run, 3);
    ServedOwners served(run, {"--set", "train.dtype=f32"});
    for (int client = 0; client < 3; ++client) served.join(client);
    const json report = served.report();

    ASSERT_EQ(report["devices"].size(), 1u) << report;
    const json& server = report["devices"][0];
    const double weights = 4.0 * server["parameters"].get<double>();
    EXPECT_GE(server["planned_bytes"], weights * (1 + slots));
    // Besides, tables that layers share and the scratch of one sample.
    EXPECT_LE(server["planned_bytes"], weights * (1 + slots) + 100'000);
    EXPECT_EQ(server["peak_bytes"], server["planned_bytes"]);
  }
}

TEST(ServedRounds, SendUpdatesByEveryCodecAndKeepSlots) {
  const std::string ways[] = {"codec = \"int8\"\nsums = \"fixed\"\nkeep_slots = true\nsample = 2\n",
                              "codec = \"int4\"\nouter = \"adam\"\nclip = 0.1\n",
                              "codec = \"topk\"\nkeep_slots = true\n"};
  for (const std::string& way : ways) {
    const EdgeRun run(banks("sync_every = 2\n" + way), 3);
    const json in_turn = run.report("", "turn");
    expect_the_same(served_report(run, 3), in_turn, way);
  }
}

TEST(ServedRounds, GiveOneHashWithMasksAndWithoutWhoeverDropsOut) {
  const EdgeRun run(banks("sync_every = 2\nsums = \"fixed\"\ndrop = 0.2\nquorum = 3\nclip = 0.1\n"
                          "secure = true\n",
                          5),
                    5);
  const json in_turn = run.report("", "turn");
  EXPECT_EQ(run.report("--set edge.secure=false", "plain")["weights"], in_turn["weights"]);
  EXPECT_GT(in_turn["rounds"]["absent"], 0);

  expect_the_same(served_report(run, 5), in_turn, "masked");
}

TEST(ServedRounds, LetAPresentClientSitOutItsDeclaredAbsences) {
  const EdgeRun run(banks("sync_every = 2\nsums = \"fixed\"\nsecure = true\nquorum = 3\n"
                          "absent = [\"clinic-1 2-3\"]\n",
                          4),
                    4);
  const json in_turn = run.report("", "turn");
  EXPECT_EQ(in_turn["rounds"]["absent"], 2);

  expect_the_same(served_report(run, 4), in_turn, "masked");
}

/// The absences that a server has declared.
std::string declared_absences(const EdgeRun& run) {
  std::ifstream config(run.path("hub/config.toml"));
  std::string line, absent;
  while (std::getline(config, line))
    if (line.starts_with("absent = ")) absent = line.substr(9);
  return absent;
}

/// Kills clinic-1 of `count` clients in the midst of rounds and lets it join again; the weights are
/// those of a run in which it was absent meanwhile.
void expect_a_killed_client_was_absent(const std::string& keys, int count) {
  const EdgeRun run(banks(keys, count), count);
  hand_out_data(run, count);
  ServedOwners served(run, {"--set", "train.steps=60"});
  std::vector<Process*> clients;
  for (int client = 0; client < count; ++client) clients.push_back(&served.join(client));
  ASSERT_TRUE(served.server().prints("step 3: saved", kOwnersPatience)) << served.server().err();
  clients[1]->signal(SIGKILL);
  ASSERT_TRUE(served.server().prints(": without clinic-1", kOwnersPatience))
      << served.server().err();
  served.join(1);
  ASSERT_TRUE(served.server().prints("all clients are here", kOwnersPatience))
      << served.server().err();
  const json report = served.report();

  take_back_data(run, count);
  const std::string absent = declared_absences(run);
  EXPECT_NE(absent.find("clinic-1"), std::string::npos) << absent;
  const json declared =
      run.report("--set train.steps=60 --set 'edge.absent=" + absent + "'", "declared");
  EXPECT_EQ(report["weights"], declared["weights"]) << absent;
  EXPECT_NE(report["weights"], run.report("--set train.steps=60", "whole")["weights"]);
}

TEST(ServedRounds, GoOnWithoutAClientThatIsKilledAsIfItHadBeenAbsent) {
  expect_a_killed_client_was_absent("sync_every = 4\nsums = \"fixed\"\nquorum = 2\n", 3);
}

TEST(ServedRounds, TakeAClientThatIsKilledOutOfAMaskedSum) {
  expect_a_killed_client_was_absent("sync_every = 4\nsums = \"fixed\"\nsecure = true\nquorum = 3\n",
                                    4);
}

TEST(ServedRounds, LetAClientThatIsBackGoOnWithWhatItKept) {
  expect_a_killed_client_was_absent(
      "sync_every = 4\ncodec = \"topk\"\nkeep_slots = true\nquorum = 2\n", 3);
}

TEST(ServedRounds, RefuseAClientThatHasLostWhatItKept) {
  const EdgeRun run(banks("sync_every = 4\nkeep_slots = true\nquorum = 2\n"), 3);
  hand_out_data(run, 3);
  ServedOwners served(run, {"--set", "train.steps=1000"});
  served.join(0);
  Process& lost = served.join(1);
  served.join(2);
  ASSERT_TRUE(served.server().prints("step 2: saved", kOwnersPatience)) << served.server().err();
  lost.signal(SIGKILL);
  ASSERT_TRUE(served.server().prints(": without clinic-1", kOwnersPatience));
  std::filesystem::remove_all(run.path("clinic-1"));

  const Answer answer = served.join(1).wait(kOwnersPatience);

  EXPECT_EQ(answer.exit, 2) << answer.err;
  EXPECT_NE(answer.err.find("rounds, and what it kept of the last one is not in "),
            std::string::npos)
      << answer.err;
}

TEST(ServedRounds, EndWhereFewerThanTheQuorumAreLeft) {
  const EdgeRun run(banks("sync_every = 4\nquorum = 3\n"), 3);
  hand_out_data(run, 3);
  ServedOwners served(run, {"--set", "train.steps=1000"});
  served.join(0);
  Process& lost = served.join(1);
  served.join(2);
  ASSERT_TRUE(served.server().prints("step 2: saved", kOwnersPatience)) << served.server().err();

  lost.signal(SIGKILL);

  const Answer answer = served.server().wait(kOwnersPatience);
  EXPECT_EQ(answer.exit, 2) << answer.err;
  EXPECT_NE(answer.err.find(" 2 of 3 clients answer, and edge.quorum is 3"), std::string::npos)
      << answer.err;
}

TEST(ServedRounds, AreRefusedByTheOwnerWhosePolicyDoesNotAllowThem) {
  const EdgeRun run(banks("sync_every = 2\n"), 3);
  hand_out_data(run, 3);
  std::ofstream(run.path("policy.toml"))
      << "owner = \"clinic-0\"\nsends = [\"masked update\", \"statistic\"]\n";
  ServedOwners served(run, {"--set", "train.elastic=false"});
  served.join(1);
  served.join(2);

  const Answer joined = served.join(0, {"--policy", run.path("policy.toml")}).wait(kOwnersPatience);

  EXPECT_EQ(joined.exit, 2) << joined.err;
  EXPECT_NE(joined.err.find("the policy of clinic-0 does not let update leave it: data of clinic-0 "
                            "→ local steps → AGG → server"),
            std::string::npos)
      << joined.err;
  EXPECT_EQ(served.server().wait(kOwnersPatience).exit, 4);
}

}  // namespace
}  // namespace cleave
