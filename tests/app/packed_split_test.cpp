// Clients whose table of tokens is in bytes: the same bits wherever its owner is, and less memory.

#include <algorithm>
#include <limits>

#include "app/served_owners.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::EdgeRun;
using testing::hand_out_data;
using testing::ServedOwners;

const std::string kPacked = "--set model.frozen_embedding=int8 ";

/// Two clients and a hub train adapters; `layers` are the clients'.
std::string adapted(const std::string& layers) {
  const std::string sends =
      "sends = [\"label\", \"activation\", \"gradient\", \"update\", \"statistic\"]\n";
  return "[lora]\nrank = 2\n" + testing::clinics_and_hub(2, layers, sends);
}

json served(const EdgeRun& run, const std::vector<std::string>& flags) {
  hand_out_data(run, 2);
  ServedOwners owners(run, flags);
  owners.join(0);
  owners.join(1);
  const json report = owners.report();
  testing::take_back_data(run, 2);
  return report;
}

TEST(ServedPackedTable, HasOneHashOnThreadsOverTlsAndOnOneDevice) {
  for (const char* tied : {"true", "false"}) {  // whether the head shares the table
    const EdgeRun run(adapted("[1, 1]"), 2);
    const std::string flags = kPacked + "--set model.tie_embeddings=" + tied + " ";
    const json threads = run.report(flags, "threads");
    const json central = run.report(flags + "--central", "central");
    const json apart = served(run, {"--set", "model.frozen_embedding=int8", "--set",
                                    std::string("model.tie_embeddings=") + tied});

    EXPECT_EQ(threads["weights"], central["weights"]) << tied;
    EXPECT_EQ(apart["weights"], central["weights"]) << tied;
    EXPECT_EQ(apart["loss"], central["loss"]) << tied;
    EXPECT_EQ(apart["validation_loss"], central["validation_loss"]) << tied;
    EXPECT_NE(central["weights"],
              run.report(flags + "--set model.frozen_embedding=full --central", "full")["weights"]);
    for (const json* report : {&threads, &central, &apart})
      for (const json& device : (*report)["devices"])
        EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]) << tied;
  }
}

TEST(PackedTable, TakesAByteForEachNumberOfAClientThatHasNoHead) {
  const EdgeRun run(adapted("1"), 2);
  const auto planned = [&](const std::string& flags, const std::string& out) {
    const json report = run.report(flags, out);
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const json& device : report["devices"])
      least = std::min(least, device["planned_bytes"].get<std::int64_t>());
    return least;
  };
  // 256 rows of 32 numbers in f32, or of 32 bytes and a scale.
  EXPECT_EQ(planned("--set train.dtype=f32", "full") -
                planned(kPacked + "--set train.dtype=f32", "packed"),
            256 * (32 * 4 - (32 + 4)));
  EXPECT_EQ(run.report(kPacked, "threads")["weights"],
            run.report(kPacked + "--central", "central")["weights"]);
}

TEST(PackedTable, GoesOnFromItsCheckpointWithTheBitsOfTheUndisturbedRun) {
  const EdgeRun run(adapted("[1, 1]"), 2);
  const std::string& level = testing::kLevelRate;
  const json whole = run.report(kPacked + level, "whole");
  run.report(kPacked + level + "--set train.steps=2", "half");
  const json resumed = run.report(kPacked + level + "--resume", "half");
  EXPECT_EQ(resumed["weights"], whole["weights"]);

  const Answer other = run.train(level + "--resume", "half");
  EXPECT_EQ(other.exit, 2);
  EXPECT_NE(other.err.find("model.frozen_embedding is \"full\", but "), std::string::npos)
      << other.err;
}

TEST(PackedTable, IsRefusedWhereItCannotBe) {
  const EdgeRun run("", 0);
  const auto refusal = [&](const std::string& flags) {
    const Answer answer =
        run.train(kPacked + "--set data.path=" + run.path("run.toml") + " " + flags);
    EXPECT_EQ(answer.exit, 2) << answer.err;
    return answer.err;
  };
  const std::string learns = refusal("");
  EXPECT_NE(learns.find("model.frozen_embedding is \"int8\", and transformer.wte.weight learns"),
            std::string::npos)
      << learns;
  const std::string shared = refusal(
      "--set lora.rank=2 --set parallel.data=2 --set devices.count=2 --set parallel.zero=3");
  EXPECT_NE(shared.find("parallel.zero 3 cuts values anywhere, and model.frozen_embedding is"),
            std::string::npos)
      << shared;
}

}  // namespace
}  // namespace cleave
