// Split training as people run it: clients with layers, labels and data of their own, and a server.

#include <fstream>

#include "app/edge_run.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using testing::Answer;
using testing::clinics_and_hub;
using testing::EdgeRun;

TEST(Split, HasTheWeightsOfOneDeviceWithAllTheData) {
  for (const int clients : {1, 4}) {
    const EdgeRun run(clinics_and_hub(clients, "[1, 1]"), clients);
    const nlohmann::json apart = run.report("", "split");
    const nlohmann::json central = run.report("--central", "central");

    EXPECT_EQ(apart["weights"], central["weights"]) << clients << " clients";
    EXPECT_EQ(apart["loss"], central["loss"]);
    EXPECT_EQ(apart["devices"].size(), 2u * clients);
    EXPECT_EQ(central["devices"].size(), 1u);
    for (const auto& device : apart["devices"])
      EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
  }
}

TEST(Split, GivesOneHashForAnyNumberOfClientsThatShareTheData) {
  const auto shared = [](int clients) {
    std::string tables = clinics_and_hub(clients, "[1, 1]");
    for (std::size_t at = 0; (at = tables.find("data = ", at)) != tables.npos;)
      tables.erase(at, tables.find('\n', at) + 1 - at);
    return "[data]\npath = \"DIR/client0.txt\"\n[numerics]\ndata_shards = 16\n" + tables;
  };
  const std::string keys = "--set train.batch=16 --set train.steps=2 ";
  const auto weights = EdgeRun(shared(1), 1).report(keys + "--central")["weights"];
  for (const int clients : {1, 4, 16})
    EXPECT_EQ(EdgeRun(shared(clients), 1).report(keys)["weights"], weights) << clients;
}

TEST(Split, GivesTheSameWeightsWithOtherSchedulesAndCuts) {
  const EdgeRun run(clinics_and_hub(2, "[1, 1]"), 2);
  const auto weights = run.report("")["weights"];

  EXPECT_EQ(run.report("--set parallel.schedule=v-min", "min")["weights"], weights);
  const EdgeRun labels_leave(
      clinics_and_hub(2, "1", "sends = [\"label\", \"activation\", \"update\", \"statistic\"]\n"),
      2);
  EXPECT_EQ(labels_leave.report("--set parallel.schedule=zb-h1")["weights"], weights);
}

TEST(Split, SendsWhatTheFlowSaysItSends) {
  const EdgeRun run(clinics_and_hub(1, "[1, 1]"), 1);
  const nlohmann::json flow = nlohmann::json::parse(run.verify("--json").out);
  const nlohmann::json report = run.report("");

  EXPECT_EQ(flow["verified"], true);
  std::int64_t client = 0;
  for (const auto& row : flow["flow"])
    if (row["from"] == "clinic-0") client += row["bytes"].get<std::int64_t>();
  EXPECT_GT(client, 0);
  EXPECT_EQ(report["devices"][0]["bytes_sent"], client);
}

TEST(Split, RefusesWhatAnOwnerDoesNotSend) {
  const EdgeRun labels(clinics_and_hub(1, "1"), 1);
  const std::string sentence =
      "owner clinic-0 does not send label, which would leave it: targets of clinic-0 → 1F → hub; "
      "let the client have the last layers too, as in layers = [1, 1], or add \"label\" to what it "
      "sends\n";
  const Answer trained = labels.train("");
  EXPECT_EQ(trained.exit, 2);
  EXPECT_EQ(trained.err, "cleave: " + sentence);
  const Answer verified = labels.verify();
  EXPECT_EQ(verified.exit, 1);
  EXPECT_NE(verified.out.find("to hub  REFUSED"), std::string::npos) << verified.out;
  EXPECT_NE(verified.out.find(sentence), std::string::npos) << verified.out;

  const EdgeRun embedding(clinics_and_hub(1, "[0, 1]"), 1);
  const Answer input = embedding.train("");
  EXPECT_EQ(input.exit, 2);
  EXPECT_NE(input.err.find("does not send input"), std::string::npos) << input.err;
  EXPECT_NE(input.err.find("0F (no product) on clinic-0"), std::string::npos) << input.err;
}

TEST(Split, IsHeldAgainstThePolicyOfAnOwner) {
  const EdgeRun run(clinics_and_hub(2, "[1, 1]"), 2);
  const auto verify = [&](const std::string& policy) {
    std::ofstream(run.path("policy.toml")) << policy;
    return run.verify("--policy " + run.path("policy.toml"));
  };
  const std::string allowed =
      "owner = \"clinic-0\"\nsends = [\"activation\", \"gradient\", \"update\", "
      "\"statistic\"]\n";
  EXPECT_EQ(verify(allowed + "layers = 1\nsteps = 4\nbytes = \"10MiB\"\n").exit, 0);

  const Answer deeper = verify(allowed + "layers = 2\n");
  EXPECT_EQ(deeper.exit, 1);
  EXPECT_NE(
      deeper.out.find("the policy of clinic-0 wants 2 layers of its own before what it sends, "
                      "and the run gives it 1\n"),
      std::string::npos)
      << deeper.out;
  const Answer alone = verify(allowed + "to = \"hub\"\n");
  EXPECT_EQ(alone.exit, 1);
  EXPECT_NE(alone.out.find("lets nothing go to clinic-1, and update would: REDUCE"),
            std::string::npos)
      << alone.out;
  const Answer wrong = verify(allowed + "layer = 2\n");
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_NE(wrong.err.find("is no key of a policy; did you mean layers?"), std::string::npos)
      << wrong.err;
}

TEST(Split, RefusesOwnersThatMakeNoLayout) {
  const auto refused = [](const std::string& tables, int clients, const std::string& flags = "") {
    const Answer answer = EdgeRun(tables, clients).train(flags);
    EXPECT_EQ(answer.exit, 2) << answer.err;
    return answer.err;
  };
  EXPECT_EQ(refused(clinics_and_hub(1, "[2, 1]"), 1),
            "cleave: the client's layers leave 1 of model.layers 4 to the server, which has 2 "
            "stages, twice its devices; leave it at least one for each\n");
  EXPECT_EQ(refused(clinics_and_hub(3, "[1, 1]"), 3, "--central --set train.batch=6"),
            "cleave: edge.central plays 3 clients on one device, and sums over replicas fold for "
            "1, 2, 4, 8, … only; take such a number of clients\n");
  EXPECT_EQ(refused(clinics_and_hub(1, "[1, 1]", "sends = [\"labels\"]\n"), 1),
            "cleave: sends of an [[edge.owner]] is [\"labels\"] (a list); it must be a list of "
            "\"input\", \"label\", \"activation\", \"gradient\", \"weight\", \"update\", \"masked "
            "update\", \"noised update\" and \"statistic\"\n");
  const Answer small = EdgeRun(clinics_and_hub(1, "[1, 1]", "memory = \"64KiB\"\n"), 1).train("");
  EXPECT_EQ(small.exit, 3);
  EXPECT_NE(small.err.find("owner clinic-0 has memory for 64.0 KiB (65536 bytes), and its part "
                           "needs "),
            std::string::npos)
      << small.err;
  EXPECT_NE(small.err.find(" bytes), the largest share for block 0 (203264 bytes); "),
            std::string::npos)
      << small.err;
}

TEST(Split, GoesOnFromACheckpointOfTheCentralRun) {
  const EdgeRun run(clinics_and_hub(2, "[1, 1]"), 2);
  const auto weights = run.report("", "whole")["weights"];

  run.report("--central --set train.steps=2 --set train.warmup=0 --set train.schedule=constant");
  const nlohmann::json resumed =
      run.report("--resume --set train.warmup=0 --set train.schedule=constant");
  const nlohmann::json constant =
      run.report("--set train.warmup=0 --set train.schedule=constant", "constant");
  EXPECT_EQ(resumed["weights"], constant["weights"]);
  EXPECT_NE(resumed["weights"], weights);
}

}  // namespace
}  // namespace cleave
