// Federated averaging as people run it: clients in rounds, drawn from a seed.

#include "app/edge_run.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using testing::Answer;
using testing::averaged;
using testing::EdgeRun;

TEST(Federated, GivesOneHashWhateverIsPlayedWhereAndWhoAnswersFirst) {
  const EdgeRun run(averaged("sync_every = 2\nsample = 3\nsums = \"fixed\"\n"), 3);
  const nlohmann::json first = run.report("", "first");

  EXPECT_EQ(run.report("", "again")["weights"], first["weights"]);
  for (const std::string arrival : {"1", "2", "3"})
    EXPECT_EQ(run.report("--set edge.arrival=" + arrival, "arrival" + arrival)["weights"],
              first["weights"]);
  EXPECT_EQ(run.report("--set parallel.pipeline=2", "pipeline")["weights"], first["weights"]);
  EXPECT_NE(run.report("--set train.seed=2", "seed")["weights"], first["weights"]);
  EXPECT_EQ(first["rounds"]["rounds"], 4);
  EXPECT_EQ(first["rounds"]["participants"], 12);
  EXPECT_EQ(first["rounds"]["local_steps"], 24);
  for (const auto& device : first["devices"])
    EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
}

TEST(Federated, GoesOnFromACheckpointWithTheBitsOfTheUndisturbedRun) {
  for (const std::string rule : {"nesterov", "adam"}) {
    const EdgeRun run(
        averaged("sync_every = \"1 epoch\"\nsample = 2\nkeep_slots = true\nouter = \"" + rule +
                 "\"\n"),
        3);
    const std::string& level = testing::kLevelRate;
    const auto whole = run.report(level, "whole")["weights"];

    run.report(level + "--set train.steps=2");
    EXPECT_EQ(run.report(level + "--resume")["weights"], whole) << rule;
  }
}

TEST(Federated, OfOneClientDoesNotDependOnWhereRoundsEnd) {
  const std::string keys =
      "--set train.optimizer=sgd --set train.momentum=0 --set train.schedule=constant --set "
      "train.warmup=0 ";
  const std::string alone = "[data]\npath = \"DIR/client0.txt\"\n[edge]\nclients = 1\n";
  const EdgeRun often(alone + "sync_every = 1\n", 1);
  const EdgeRun seldom(alone + "sync_every = 2\n", 1);

  EXPECT_EQ(often.report(keys)["weights"], seldom.report(keys + "--set train.steps=2")["weights"])
      << "four local steps";
}

TEST(Federated, LearnsByEveryRule) {
  const EdgeRun run(averaged("sync_every = 4\n"), 3);
  const std::string keys = "--set train.lr=3e-3 --set train.steps=6 ";
  for (const std::string rule :
       {"mean", "momentum", "nesterov", "adam", "yogi", "median", "trimmed-mean", "krum"}) {
    const nlohmann::json report = run.report(keys + "--set edge.outer=" + rule, rule);
    EXPECT_LT(report["loss"].back().get<double>(), report["loss"][0].get<double>()) << rule;
  }
  const auto free = run.report(keys, "free")["weights"];
  EXPECT_NE(run.report(keys + "--set edge.proximal=0.1", "held")["weights"], free);
}

TEST(Federated, SaysWhatLeavesAClient) {
  const std::string owners =
      "[edge]\nsync_every = 2\n[[edge.owner]]\nname = \"clinic\"\ndata = \"DIR/client0.txt\"\n"
      "sends = [\"update\", \"statistic\"]\n[[edge.owner]]\nname = \"phone\"\ndata = "
      "\"DIR/client1.txt\"\n";
  const EdgeRun run(owners, 2);
  const nlohmann::json flow = nlohmann::json::parse(run.verify("--json").out);
  const nlohmann::json report = run.report("");

  EXPECT_EQ(flow["verified"], true);
  EXPECT_EQ(flow["unit"], "round");
  EXPECT_EQ(flow["flow"][0]["class"], "update");
  EXPECT_EQ(flow["flow"][0]["bytes"], report["rounds"]["up_bytes"]);

  const Answer refused = EdgeRun(
                             "[edge]\nsync_every = 2\n[[edge.owner]]\nname = \"clinic\"\n"
                             "data = \"DIR/client0.txt\"\nsends = [\"masked update\"]\n",
                             1)
                             .train("");
  EXPECT_EQ(refused.exit, 2);
  EXPECT_EQ(
      refused.err.rfind("cleave: owner clinic does not send update, which would leave it: ", 0), 0u)
      << refused.err;
}

TEST(Federated, IsSimulatedForManyClients) {
  const EdgeRun run(averaged("sync_every = \"1 epoch\"\nsample = 50\n"), 3);
  const std::string simulate = "edge simulate " + run.path("run.toml") + " ";
  const Answer answer = testing::run_cleave(
      simulate + "--set edge.clients=200 --set edge.codec=int8 --rounds 5 --json");
  ASSERT_EQ(answer.exit, 0) << answer.err;
  const nlohmann::json json = nlohmann::json::parse(answer.out);
  EXPECT_EQ(json["clients"], 200);
  EXPECT_EQ(json["asked"], 65);
  EXPECT_EQ(json["awaited"], 50);
  ASSERT_EQ(json["rounds"].size(), 5u);
  EXPECT_EQ(json["up_bytes"],
            run.report("--set edge.sample=1 --set edge.codec=int8")["rounds"]["up_bytes"]);
  EXPECT_EQ(
      testing::run_cleave(simulate + "--set edge.clients=200 --set edge.codec=int8 --rounds 5 "
                                     "--json")
          .out,
      answer.out);

  const Answer none = testing::run_cleave("edge simulate " + run.path("run.toml") +
                                          " --set edge.clients=200 --up 0B");
  EXPECT_EQ(none.exit, 2);
  EXPECT_EQ(none.err, "cleave: --up is 0, and nothing would ever arrive; give a rate above 0\n");
}

TEST(Federated, RefusesWhatCannotBe) {
  const EdgeRun run(averaged("sync_every = 2\n"), 3);
  const auto refused = [&](const std::string& flags) {
    const Answer answer = run.train(flags);
    EXPECT_EQ(answer.exit, 2) << flags;
    return answer.err;
  };
  EXPECT_EQ(refused("--set edge.sample=6"),
            "cleave: edge.sample is 6, and there are 5 clients; sample fewer\n");
  EXPECT_EQ(refused("--set edge.arrival=3"),
            "cleave: edge.arrival is 3, and sums in the order of clients do not look at it; set "
            "edge.sums to \"fixed\"\n");
  EXPECT_EQ(
      refused("--set edge.sums=fixed --set edge.outer=median"),
      "cleave: edge.sums is \"fixed\", and edge.outer median adds nothing up; leave it out\n");
  EXPECT_EQ(refused("--set edge.partition=labels --set edge.labels=4"),
            "cleave: edge.labels is 4, but the data have 3 labels; ask for fewer (text has one for "
            "each data.path with a weight)\n");
}

}  // namespace
}  // namespace cleave
