// Rounds that average a part of the model each, as people run them.

#include "app/served_owners.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::averaged;
using testing::clinics;
using testing::EdgeRun;
using testing::kLevelRate;

const std::string kStreamed = "sync_every = 2\nfragments = 3\nkeep_slots = true\n";

/// Three clients; `keys` are those of [edge].
std::string streaming_owners(const std::string& keys) {
  return "[edge]\n" + keys + clinics(3);
}

TEST(Streamed, HasOneHashInEveryLayoutAndGoesOnFromACheckpoint) {
  const EdgeRun run(averaged(kStreamed + "outer = \"nesterov\"\n"), 3);
  const json whole = run.report(kLevelRate, "whole");

  EXPECT_EQ(run.report(kLevelRate + "--set parallel.pipeline=2", "two")["weights"],
            whole["weights"]);
  for (const json& device : whole["devices"])
    EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
  run.report(kLevelRate + "--set train.steps=2", "parted");
  EXPECT_EQ(run.report(kLevelRate + "--resume", "parted")["weights"], whole["weights"]);
  const Answer other = run.train(kLevelRate + "--set edge.fragments=2 --resume", "parted");
  EXPECT_EQ(other.exit, 2);
}

TEST(Streamed, SendsInARoundWhatItAverages) {
  const EdgeRun run(averaged(kStreamed), 3);
  const auto sent = [&](const std::string& keys, const std::string& out) {
    return run.report("--set train.steps=3 " + keys, out)["rounds"]["sent_bytes"]
        .get<std::int64_t>();
  };
  const json flow = json::parse(run.verify("--json").out);
  const json whole = json::parse(run.verify("--set edge.fragments=1 --json").out);

  EXPECT_EQ(3 * sent("", "parts"), sent("--set edge.fragments=1", "whole"))
      << "three rounds send every tensor once";
  EXPECT_LT(flow["flow"][0]["bytes"], whole["flow"][0]["bytes"]);
}

TEST(Streamed, IsRefusedByNameWhereUpdatesMustBeWhole) {
  const auto refused = [](const std::string& keys) {
    const Answer answer = EdgeRun(averaged(kStreamed + keys), 3).train("");
    EXPECT_EQ(answer.exit, 2);
    return answer.err;
  };
  EXPECT_EQ(refused("outer = \"median\"\n"),
            "cleave: edge.outer does not go with edge.fragments 3, since it compares whole "
            "updates; leave one of them out\n");
  EXPECT_EQ(refused("clip = 1.0\n"),
            "cleave: edge.clip does not go with edge.fragments 3, since it is for whole updates; "
            "leave one of them out\n");
  const Answer many = EdgeRun(averaged("sync_every = 2\nfragments = 9\n"), 3).train("");
  EXPECT_EQ(many.exit, 2);
  EXPECT_EQ(many.err,
            "cleave: edge.fragments is 9, and the model has 6 segments to share out; take "
            "fewer\n");
}

TEST(ServedStreamed, HasTheWeightsOfClientsPlayedInTurn) {
  for (const std::string& more : {std::string(), std::string("codec = \"topk\"\n"),
                                  std::string("secure = true\nsums = \"fixed\"\n")}) {
    const EdgeRun run(streaming_owners(kStreamed + more), 3);
    const json played = run.report("", "played");
    testing::hand_out_data(run, 3);

    testing::ServedOwners served(run, {});
    for (const int client : {0, 1, 2}) served.join(client);

    EXPECT_EQ(served.report()["weights"], played["weights"]) << more;
  }
}

TEST(ServedStreamed, GoesOnWithAClientThatIsBackAfterAbsences) {
  const EdgeRun run(streaming_owners(kStreamed + "absent = [\"clinic-1 3-4\"]\n"), 3);
  const json played = run.report("--set train.steps=8", "played");
  testing::hand_out_data(run, 3);

  testing::ServedOwners served(run, {"--set", "train.steps=8"});
  for (const int client : {0, 1, 2}) served.join(client);

  EXPECT_EQ(served.report()["weights"], played["weights"]);
}

}  // namespace
}  // namespace cleave
