// What can be told from what leaves a client.

#include "app/edge_run.h"
#include "support/paths.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::EdgeRun;
using testing::run_cleave;

/// A client with its data and some of four layers, and a server with the others.
EdgeRun run_with_layers(const std::string& layers) {
  return EdgeRun("[[edge.owner]]\nname = \"clinic-0\"\ndata = \"DIR/client0.txt\"\nlayers = [" +
                     layers + "]\n[[edge.owner]]\nname = \"hub\"\nrole = \"server\"\n",
                 2);
}

Answer leakage(const EdgeRun& run, const std::string& flags) {
  return run_cleave("edge leakage " + run.path("run.toml") + " " + flags);
}

TEST(Leakage, FindsTokensAfterAShallowCutAndSaysTheSameTwice) {
  const EdgeRun run = run_with_layers("1, 1");
  const std::string flags = "--probe " + run.path("client1.txt") + " --rows 1024 --json";
  const Answer once = leakage(run, flags), again = leakage(run, flags);

  ASSERT_EQ(once.exit, 0) << once.err;
  EXPECT_EQ(once.out, again.out);
  const json told = json::parse(once.out);
  EXPECT_EQ(told["owner"], "clinic-0");
  EXPECT_EQ(told["segments"], 2);  // the embedding and a block
  EXPECT_EQ(told["row"], "token");
  EXPECT_EQ(told["width"], 32);
  EXPECT_EQ(told["inverter"]["rows_known"], 768);
  EXPECT_EQ(told["inverter"]["rows_hidden"], 256);
  // A fresh block adds little to what the embedding gives, which can be looked up.
  EXPECT_GT(told["inverter"]["found"], 0.9);
  EXPECT_LT(told["inverter"]["guessed"], 0.5);
  EXPECT_GT(told["distance_correlation"], 0.3);
}

TEST(Leakage, TakesOneValueAfterEachSet) {
  const EdgeRun run = run_with_layers("1, 1");
  const Answer answer =
      run_cleave("edge leakage --set train.seed=7 --set train.lr=0.1 " + run.path("run.toml") +
                 " --probe " + run.path("client1.txt") + " --rows 256 --json");

  ASSERT_EQ(answer.exit, 0) << answer.err;
  EXPECT_EQ(json::parse(answer.out)["owner"], "clinic-0");
}

TEST(Leakage, LooksAtTheCutThatTheClientHas) {
  const EdgeRun run = run_with_layers("2, 0");
  const Answer answer = leakage(run, "--probe " + run.path("client1.txt") + " --rows 256 --json");
  ASSERT_EQ(answer.exit, 0) << answer.err;
  EXPECT_EQ(json::parse(answer.out)["segments"], 3);
}

TEST(Leakage, IsOfTheWeightsThatItIsGiven) {
  const EdgeRun run = run_with_layers("1, 1");
  run.report("");
  const std::string probe = "--probe " + run.path("client1.txt") + " --rows 512 --json";
  const Answer fresh = leakage(run, probe),
               trained = leakage(run, probe + " --from " + run.path("out"));
  ASSERT_EQ(trained.exit, 0) << trained.err;
  EXPECT_NE(json::parse(fresh.out)["distance_correlation"],
            json::parse(trained.out)["distance_correlation"]);
}

TEST(Leakage, IsTheSameWhereOneDevicePlaysAllOwners) {
  const EdgeRun run = run_with_layers("1, 1");
  const std::string flags = "--probe " + run.path("client1.txt") + " --rows 256 --json";
  const Answer central = leakage(run, flags + " --set edge.central=true");

  ASSERT_EQ(central.exit, 0) << central.err;
  EXPECT_EQ(central.out, leakage(run, flags).out);
}

TEST(Leakage, IsOfTheAdaptersThatTheRunBeginsWith) {
  const EdgeRun run = run_with_layers("1, 1");
  run.report("--set lora.rank=4");
  const std::string adapters =
      " --set lora.from=" + run.path("out") + "/checkpoints/latest/adapter";
  const std::string flags =
      "--probe " + run.path("client1.txt") + " --rows 256 --json --set lora.rank=4";
  const auto correlation = [&](const std::string& more) {
    const Answer answer = leakage(run, flags + more);
    EXPECT_EQ(answer.exit, 0) << answer.err;
    return json::parse(answer.out)["distance_correlation"];
  };

  const json trained = correlation(" --from " + run.path("out"));
  EXPECT_NE(correlation(""), trained);
  EXPECT_EQ(correlation(adapters), trained) << "the base is the same fresh one";
  EXPECT_EQ(correlation(adapters + " --from " + run.path("out")), trained);
}

TEST(Leakage, RefusesWhatItCannotMeasure) {
  const EdgeRun run = run_with_layers("1, 1");
  const auto refused = [&](const std::string& flags) {
    const Answer answer = leakage(run, flags);
    EXPECT_EQ(answer.exit, 2) << flags;
    return answer.err;
  };
  const std::string probe = "--probe " + run.path("client1.txt");
  EXPECT_EQ(refused(probe + " --owner clinic-7"),
            "cleave: the run has no client \"clinic-7\"; name one of its clients\n");
  EXPECT_EQ(refused(probe + " --rows 8"),
            "cleave: --rows 8 is less than 64, of which nothing can be learned\n");
  EXPECT_NE(refused("--probe " + run.path("nothing.txt")).find("--probe"), std::string::npos);

  const Answer whole = run_cleave(
      "edge leakage " + testing::source_path("examples/quickstart/run.toml") + " " + probe);
  EXPECT_EQ(whole.exit, 2);
  EXPECT_NE(whole.err.find("no owner of the run has layers of its own"), std::string::npos);
}

}  // namespace
}  // namespace cleave
