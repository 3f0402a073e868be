// Clients that clip and noise what they learn from each example.

#include <filesystem>
#include <fstream>

#include "app/served_owners.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Answer;
using testing::averaged;
using testing::clinics;
using testing::EdgeRun;

const std::string kNoisy = "sync_every = 2\nexample_clip = 0.5\nexample_noise = 0.8\n";

/// A run's secret before it begins, which --resume finds and --overwrite removes.
void give_secret(const EdgeRun& run, const std::string& out, char letter) {
  fs::create_directories(run.path(out));
  std::ofstream(run.path(out + "/secret")) << std::string(32, letter);
}

/// Two clients; `keys` are those of [edge].
std::string noisy_owners(const std::string& keys) {
  return "[edge]\n" + keys + clinics(2);
}

TEST(ExampleNoise, IsAFunctionOfTheSecretAndNotOfTheLayout) {
  const EdgeRun run(averaged(kNoisy), 3);
  for (const char* out : {"one", "two"}) give_secret(run, out, 'a');
  give_secret(run, "other", 'b');
  const json one = run.report("--resume", "one");
  const json two = run.report("--set parallel.pipeline=2 --resume", "two");

  EXPECT_EQ(one["weights"], two["weights"]);
  EXPECT_NE(run.report("--resume", "other")["weights"], one["weights"]);
  EXPECT_NE(run.report("--overwrite", "one")["weights"], one["weights"])
      << "two runs with one noise would show what it hides";
  for (const json& report : {one, two})
    for (const json& device : report["devices"])
      EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
}

TEST(ExampleNoise, RepeatsWhatAnInterruptedRunHad) {
  const EdgeRun run(averaged(kNoisy + "keep_slots = true\n"), 3);
  const std::string& level = testing::kLevelRate;
  for (const char* out : {"whole", "parted"}) give_secret(run, out, 'a');
  const json whole = run.report(level + "--resume", "whole");

  run.report(level + "--set train.steps=2 --resume", "parted");
  const json parted = run.report(level + "--resume", "parted");
  EXPECT_EQ(parted["weights"], whole["weights"]);
  EXPECT_EQ(parted["rounds"]["epsilon"], whole["rounds"]["epsilon"]);
  const Answer quieter =
      run.train(level + "--set train.steps=6 --set edge.example_noise=0.7 --resume", "parted");
  EXPECT_EQ(quieter.exit, 2);
  EXPECT_NE(quieter.err.find("edge.example_noise"), std::string::npos) << quieter.err;
}

TEST(ExampleNoise, CostsWhatTheAccountantSays) {
  const EdgeRun run(noisy_owners("sync_every = 2\nexample_clip = 0.5\nexample_noise = 1.5\n"), 2);
  const json report = run.report("");
  const double cost = report["rounds"]["epsilon"].get<double>();
  EXPECT_GT(cost, 0);

  EXPECT_EQ(run.train("--set edge.epsilon=" + std::to_string(cost + 1e-5), "enough").exit, 0);
  const Answer refused = run.train("--set edge.epsilon=" + std::to_string(0.5 * cost), "less");
  EXPECT_EQ(refused.exit, 2);
  EXPECT_NE(refused.err.find(", and 8 steps of clinic-0 with edge.example_noise 1.5 cost "),
            std::string::npos)
      << refused.err;
  EXPECT_NE(refused.err.find("; take at most "), std::string::npos) << refused.err;
  EXPECT_FALSE(fs::exists(run.path("less/checkpoints")));
}

TEST(ExampleNoise, IsInTheTableOfWhatLeavesWhomAndHeldAgainstPolicies) {
  const EdgeRun run(noisy_owners(kNoisy), 2);
  const auto verify = [&](const std::string& policy, const std::string& flags = "") {
    std::ofstream(run.path("policy.toml"))
        << "owner = \"clinic-0\"\nsends = [\"noised update\", \"statistic\"]\n"
        << policy;
    return run.verify("--policy " + run.path("policy.toml") + " " + flags);
  };

  EXPECT_EQ(verify("").exit, 0) << verify("").out;
  EXPECT_EQ(verify("epsilon = 8.0\n").exit, 1) << "nothing bounds what it costs";
  EXPECT_EQ(verify("epsilon = 8.0\n", "--set edge.epsilon=8.0").exit, 0);
  EXPECT_EQ(verify("epsilon = 8.0\n", "--set edge.epsilon=9.0").exit, 1);
}

TEST(ExampleNoise, IsRefusedWhereItProtectsNothing) {
  const auto refused = [](const std::string& edge, const std::string& flags = "") {
    const Answer answer = EdgeRun(edge, 3).train(flags);
    EXPECT_EQ(answer.exit, 2) << answer.err;
    return answer.err;
  };
  const std::string split =
      "[edge]\nexample_clip = 1.0\nexample_noise = 1.0\n[[edge.owner]]\nname = \"clinic\"\ndata = "
      "\"DIR/client0.txt\"\nlayers = [1, 1]\n[[edge.owner]]\nname = \"hub\"\nrole = \"server\"\n";
  EXPECT_EQ(refused(split),
            "cleave: edge.example_clip bounds the whole gradient of an example, and layers that it "
            "goes through are of two owners, clinic and hub, neither of whom has all of it; leave "
            "it out, or let clients have the whole model, with edge.sync_every and without "
            "layers\n");
  EXPECT_EQ(refused(averaged("sync_every = 2\nexample_noise = 1.5\n")),
            "cleave: edge.example_noise is 1.5, and edge.example_clip is not set, so nothing "
            "bounds what it hides; set it\n");
  EXPECT_EQ(refused(averaged(kNoisy), "--set train.microbatch=2"),
            "cleave: train.microbatch is 2, and with edge.example_noise an example is a "
            "microbatch; leave it out\n");
  EXPECT_EQ(refused(averaged(kNoisy), "--set train.clip=2.5"),
            "cleave: train.clip is 2.5, and edge.example_clip bounds the gradient of every "
            "example; leave it out\n");
  EXPECT_EQ(refused(averaged(kNoisy + "clip = 1.0\nnoise = 1.0\n")),
            "cleave: edge.noise hides clients and edge.example_noise examples, and their ε are of "
            "two kinds; leave one of them out\n");
  const std::string few = refused(averaged(kNoisy), "--set train.batch=4096");
  EXPECT_NE(few.find(" examples, and with edge.example_noise a step takes train.batch 4096 of "
                     "them in the mean; lower it, or give it more data\n"),
            std::string::npos)
      << few;
}

TEST(ServedExampleNoise, HasTheWeightsOfClientsPlayedWithTheirSecrets) {
  const EdgeRun run(noisy_owners(kNoisy), 2);
  for (const char* out : {"played", "clinic-0", "clinic-1"}) give_secret(run, out, 'a');
  const json played = run.report("--resume", "played");
  testing::hand_out_data(run, 2);

  testing::ServedOwners served(run, {});
  for (const int client : {0, 1}) served.join(client);
  const json report = served.report();

  EXPECT_EQ(report["weights"], played["weights"]);
  EXPECT_FALSE(fs::exists(run.path("hub/secret"))) << "the server neither has nor needs one";
}

}  // namespace
}  // namespace cleave
