// Rounds whose clients are programs of their own: each trains where its data are, all at once.

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

/// Three clients with data of their own; `keys` are those of [edge].
std::string banks(const std::string& keys) {
  std::string tables = "[data]\nvalidation = 0.1\n[edge]\n" + keys;
  for (int client = 0; client < 3; ++client) {
    const std::string number = std::to_string(client);
    tables += "[[edge.owner]]\nname = \"clinic-" + number + "\"\ndata = \"DIR/client" + number +
              ".txt\"\n";
  }
  return tables;
}

TEST(ServedRounds, HaveTheWeightsOfRoundsPlayedInTurn) {
  const std::string ways[] = {"sync_every = 2\nsums = \"fixed\"\nouter = \"nesterov\"\n",
                              "sync_every = \"1 epoch\"\nsample = 2\nproximal = 0.1\n",
                              "sync_every = 2\nouter = \"median\"\n"};
  for (const std::string& way : ways) {
    const EdgeRun run(banks(way), 3);
    const json in_turn = run.report("", "turn");
    hand_out_data(run, 3);

    ServedOwners served(run, {});
    std::vector<Process*> clients;
    for (int client = 0; client < 3; ++client) clients.push_back(&served.join(client));
    const json report = served.report();

    EXPECT_EQ(report["weights"], in_turn["weights"]) << way;
    EXPECT_EQ(report["loss"], in_turn["loss"]);
    EXPECT_EQ(report["rounds"]["participants"], in_turn["rounds"]["participants"]);
    EXPECT_EQ(report["rounds"]["sent_bytes"], in_turn["rounds"]["sent_bytes"]);
    for (Process* client : clients) EXPECT_EQ(client->wait(kOwnersPatience).exit, 0);
  }
}

TEST(ServedRounds, GoOnWithoutAClientThatIsKilledAsIfItHadBeenAbsent) {
  const EdgeRun run(banks("sync_every = 4\nsums = \"fixed\"\nquorum = 2\n"), 3);
  hand_out_data(run, 3);
  ServedOwners served(run, {"--set", "train.steps=60"});
  served.join(0);
  Process& lost = served.join(1);
  served.join(2);
  ASSERT_TRUE(served.server().prints("step 3: saved", kOwnersPatience)) << served.server().err();
  lost.signal(SIGKILL);
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
      run.report("--set train.steps=60 --set 'edge.absent=" + absent + "'", "declared");
  EXPECT_EQ(report["weights"], declared["weights"]) << absent;
  EXPECT_NE(report["weights"], run.report("--set train.steps=60", "whole")["weights"]);
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

TEST(ServedRounds, RefuseWhatClientsThatJoinCannotDo) {
  const auto refused = [](const std::string& keys) {
    const EdgeRun run(banks("sync_every = 2\nsums = \"fixed\"\n" + keys), 3);
    const Answer answer =
        testing::run_cleave("serve " + run.path("run.toml") + " --insecure --listen 127.0.0.1:0");
    EXPECT_EQ(answer.exit, 2) << answer.err;
    return answer.err;
  };
  EXPECT_EQ(
      refused("secure = true\n"),
      "cleave: edge.secure is true, and masks are agreed on inside one process; leave it out, "
      "or use cleave train\n");
  EXPECT_EQ(
      refused("codec = \"int8\"\n"),
      "cleave: edge.codec is \"int8\", and clients that join send their weights in f32; leave "
      "it out\n");
}

}  // namespace
}  // namespace cleave
