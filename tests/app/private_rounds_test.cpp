// What happens to updates on their way: masks, drop-outs, noise and codecs.

#include <filesystem>
#include <fstream>

#include "app/edge_run.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

namespace fs = std::filesystem;
using testing::Answer;
using testing::averaged;
using testing::EdgeRun;

TEST(PrivateRounds, GiveOneHashWithMasksAndWithoutWhoeverDropsOut) {
  const EdgeRun run(averaged("sync_every = 2\nsums = \"fixed\"\ndrop = 0.2\nquorum = 3\n"), 3);
  const nlohmann::json plain = run.report("", "plain");
  const nlohmann::json masked = run.report("--set edge.secure=true", "masked");
  const nlohmann::json pipeline =
      run.report("--set edge.secure=true --set parallel.pipeline=2 --set edge.arrival=5", "two");

  EXPECT_EQ(masked["weights"], plain["weights"]);
  EXPECT_EQ(pipeline["weights"], plain["weights"]);
  EXPECT_GT(plain["rounds"]["absent"], 0);
  EXPECT_EQ(masked["rounds"]["absent"], plain["rounds"]["absent"]);
  EXPECT_EQ(masked["rounds"]["up_bytes"], 2 * plain["rounds"]["up_bytes"].get<std::int64_t>());
  EXPECT_NE(run.report("--set edge.drop=0.0", "all")["weights"], plain["weights"]);
  EXPECT_FALSE(fs::exists(run.path("plain/secret")));
  EXPECT_EQ(fs::status(run.path("masked/secret")).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST(PrivateRounds, GoOnWithClientsThatDroppedOut) {
  const EdgeRun run(averaged("sync_every = \"1 epoch\"\nsums = \"fixed\"\ndrop = 0.2\nsecure = "
                             "true\nkeep_slots = true\n"),
                    3);
  const std::string& level = testing::kLevelRate;
  const auto whole = run.report(level, "whole")["weights"];

  run.report(level + "--set train.steps=2");
  EXPECT_EQ(run.report(level + "--resume")["weights"], whole);
}

TEST(PrivateRounds, SendWhatWasPlannedByEveryCodec) {
  const EdgeRun run(averaged("sync_every = 4\n"), 3);
  const std::string keys = "--set train.lr=3e-3 --set train.steps=6 ";
  double loss_of_none = 0;
  for (const std::string codec : {"none", "bf16", "int8", "int4", "topk"}) {
    const std::string chosen = keys + "--set edge.codec=" + codec;
    const nlohmann::json report = run.report(chosen, codec);
    const nlohmann::json& rounds = report["rounds"];
    EXPECT_EQ(rounds["sent_bytes"].get<std::int64_t>(),
              rounds["participants"].get<std::int64_t>() * rounds["up_bytes"].get<std::int64_t>())
        << codec;
    const nlohmann::json flow = nlohmann::json::parse(run.verify(chosen + " --json").out);
    EXPECT_EQ(flow["flow"][0]["bytes"], rounds["up_bytes"]) << codec;
    const double loss = report["loss"].back().get<double>();
    if (codec == "none") loss_of_none = loss;
    EXPECT_LT(loss, report["loss"][0].get<double>()) << codec;
    EXPECT_NEAR(loss, loss_of_none, 0.25 * loss_of_none) << codec;
    EXPECT_EQ(run.report(chosen + " --set parallel.pipeline=2", codec + "2")["weights"],
              report["weights"])
        << codec;
    for (const auto& device : report["devices"])
      EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]) << codec;
  }
}

TEST(PrivateRounds, GoOnWithWhatACodecLeftOut) {
  const EdgeRun run(averaged("sync_every = 2\ncodec = \"topk\"\n"), 3);
  const std::string& level = testing::kLevelRate;
  const auto whole = run.report(level, "whole")["weights"];

  run.report(level + "--set train.steps=2");
  EXPECT_EQ(run.report(level + "--resume")["weights"], whole);
}

TEST(PrivateRounds, SpendEpsilonAndRepeatTheirNoise) {
  const EdgeRun run(
      averaged("sync_every = 2\nsample = 3\nsums = \"fixed\"\nclip = 0.5\nnoise = 2.0\n"), 3);
  const std::string& level = testing::kLevelRate;
  const nlohmann::json whole = run.report(level, "whole");
  EXPECT_GT(whole["rounds"]["epsilon"], 1);
  EXPECT_NE(run.report(level, "other")["weights"], whole["weights"]) << "another secret";

  const nlohmann::json half = run.report(level + "--set train.steps=2");
  EXPECT_LT(half["rounds"]["epsilon"], whole["rounds"]["epsilon"]);
  for (const char* copy : {"again", "fresh"})
    fs::copy(run.path("out"), run.path(copy),
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  fs::remove(run.path("fresh/secret"));
  const nlohmann::json resumed = run.report(level + "--resume");
  EXPECT_EQ(resumed["rounds"]["epsilon"], whole["rounds"]["epsilon"]) << "of all rounds";
  EXPECT_EQ(run.report(level + "--resume", "again")["weights"], resumed["weights"])
      << "a round that is repeated has the noise that it had";
  EXPECT_NE(run.report(level + "--resume", "fresh")["weights"], resumed["weights"]);

  const Answer changed = run.train(level + "--resume --set edge.noise=3.0 --set train.steps=6");
  EXPECT_EQ(changed.exit, 2);
  EXPECT_NE(changed.err.find("edge.noise"), std::string::npos) << changed.err;
}

TEST(PrivateRounds, KeepWhatTheirCostFollowsFrom) {
  const EdgeRun run(averaged("sync_every = 2\nexample_clip = 1.0\nexample_noise = 1.0\n"), 3);
  run.report("--set train.steps=1");
  for (const char* key : {"edge.sync_every=3", "train.batch=8", "train.sequence=8",
                          "edge.partition=dirichlet", "edge.alpha=0.1", "edge.labels=3"}) {
    const Answer changed =
        run.train("--resume --set train.steps=2 --set model.context=16 --set " + std::string(key));
    const std::string name(key, std::string_view(key).find('='));
    EXPECT_EQ(changed.exit, 2) << key;
    EXPECT_EQ(changed.err.find("cleave: " + name + " is "), 0u) << changed.err;
  }
}

TEST(PrivateRounds, DoNotTakeASecretThatCannotBeReadForNone) {
  const EdgeRun run(averaged("sync_every = 2\nsums = \"fixed\"\nclip = 0.5\nnoise = 2.0\n"), 3);
  run.report("--set train.steps=1");
  const std::string secret = run.path("out/secret");
  fs::remove(secret);
  fs::create_symlink("secret", secret);

  const Answer refused = run.train("--resume --set train.steps=2");
  EXPECT_EQ(refused.exit, 2);
  EXPECT_EQ(refused.err, "cleave: " + secret +
                             " cannot be read: Too many levels of symbolic links; masks and noise "
                             "are drawn from it\n");
}

TEST(PrivateRounds, RefuseToSpendMoreThanTheyMay) {
  const EdgeRun run(averaged("sync_every = 2\nsample = 3\nclip = 0.5\nnoise = 2.0\n"), 3);
  const Answer refused = run.train("--set edge.epsilon=4.0 --set train.steps=1000");
  EXPECT_EQ(refused.exit, 2);
  EXPECT_EQ(
      refused.err.rfind("cleave: edge.epsilon is 4, and 1000 rounds with edge.noise 2 cost ", 0),
      0u)
      << refused.err;
  EXPECT_NE(refused.err.find("; take at most "), std::string::npos) << refused.err;
}

TEST(PrivateRounds, ShowTheServerMaskedUpdatesAlone) {
  const auto owners = [](const std::string& secure) {
    return "[edge]\nsync_every = 2\nsums = \"fixed\"\nsecure = " + secure + "\n" +
           testing::clinics(3, "sends = [\"masked update\", \"statistic\"]\n");
  };
  const nlohmann::json flow =
      nlohmann::json::parse(EdgeRun(owners("true"), 3).verify("--json").out);
  EXPECT_EQ(flow["verified"], true);
  EXPECT_EQ(flow["flow"][0]["class"], "masked update");

  const Answer refused = EdgeRun(owners("false"), 3).train("");
  EXPECT_EQ(refused.exit, 2);
  EXPECT_EQ(refused.err.rfind("cleave: owner clinic-0 does not send update", 0), 0u) << refused.err;
}

TEST(PrivateRounds, RefuseWhatDoesNotGoTogether) {
  const EdgeRun run(averaged("sync_every = 2\n"), 3);
  const auto refused = [&](const std::string& flags) {
    const Answer answer = run.train(flags);
    EXPECT_EQ(answer.exit, 2) << flags;
    return answer.err;
  };
  EXPECT_EQ(refused("--set edge.secure=true"),
            "cleave: edge.secure is true, and masks are gone only from sums in fixed point; set "
            "edge.sums to \"fixed\"\n");
  EXPECT_EQ(refused("--set edge.secure=true --set edge.outer=median"),
            "cleave: edge.outer is \"median\", which looks at every update, and edge.secure shows "
            "the sum alone; leave one of them out\n");
  EXPECT_EQ(refused("--set edge.secure=true --set edge.sums=fixed --set edge.codec=int8"),
            "cleave: edge.codec is \"int8\", and masked numbers cannot be made smaller; leave it "
            "out, or edge.secure\n");
  EXPECT_EQ(refused("--set edge.secure=true --set edge.sums=fixed --set edge.sample=2"),
            "cleave: edge.secure is true, and a round has 2 clients; it needs 3, because two know "
            "each other's from the sum\n");
  EXPECT_EQ(refused("--set edge.noise=1.0"),
            "cleave: edge.noise is 1, and edge.clip is not set, so nothing bounds what it hides; "
            "set it\n");
  EXPECT_EQ(refused("--set edge.noise=1.0 --set edge.clip=1.0 --set edge.weights=samples"),
            "cleave: edge.weights is \"samples\", and with edge.noise how many a client has must "
            "not show; set it to \"equal\"\n");
  EXPECT_EQ(refused("--set edge.drop=0.9 --set edge.quorum=4").rfind("cleave: in round 1 ", 0), 0u);
}

}  // namespace
}  // namespace cleave
