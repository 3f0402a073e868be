// Real MPI processes, started by mpirun as users do.

#include <filesystem>

#include "app/tiny_run.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::TinyRun;
using Keys = TinyRun::Keys;

int lines_of_cleave(const std::string& text) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find("cleave: ", at)) != std::string::npos; ++at) ++count;
  return count;
}

// ── Same bits ────────────────────────────────────────────────────────────────────────────────────

struct Layout {
  int ranks;
  Keys keys;
};

std::vector<Layout> layouts() {
  return {{1, {}},
          {2, {"parallel.pipeline=2"}},
          {4, {"parallel.pipeline=4", "parallel.schedule=zb-h1"}},
          {4, {"parallel.pipeline=2", "parallel.data=2", "parallel.schedule=auto"}}};
}

std::vector<Layout> tensor_layouts() {
  return {{4, {"parallel.tensor=2", "parallel.pipeline=2"}},
          {4, {"parallel.tensor=2", "parallel.data=2", "parallel.zero=1"}},
          {4, {"parallel.tensor=2", "parallel.pipeline=2", "parallel.order=tensor,data,pipeline"}},
          {4, {"parallel.data=2", "parallel.pipeline=2", "parallel.order=pipeline,data,tensor"}}};
}

/// Every layout over threads and over ranks gives what one device gives.
void expect_same_bits(const TinyRun& run, const std::vector<Layout>& all) {
  const json alone = run.report();
  ASSERT_TRUE(alone.contains("weights")) << alone;
  for (const Layout& layout : all) {
    const json local = run.report(layout.keys, {"--overwrite"});
    const json mpi = run.report(layout.keys, {"--overwrite"}, layout.ranks);
    for (const json& report : {local, mpi}) {
      ASSERT_TRUE(report.contains("weights")) << report;
      EXPECT_EQ(report["weights"], alone["weights"]) << layout.ranks;
      EXPECT_EQ(report["loss"], alone["loss"]) << layout.ranks;
      EXPECT_EQ(report["devices"].size(), layout.ranks);
      for (const json& device : report["devices"]) {
        EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
        EXPECT_EQ(device["sent"], device["planned_sent"]);
      }
    }
  }
}

class MpiSameBits : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(MpiSameBits, AsOneLocalDevice) {
  const auto& [kind, dtype] = GetParam();
  expect_same_bits(TinyRun({"numerics.data_shards=2", std::string("model.kind=") + kind,
                            std::string("train.dtype=") + dtype, "model.kv_heads=4"}),
                   layouts());
}

TEST(MpiSameBitsOfShards, AsOneLocalDevice) {
  const Keys shards = {"numerics.data_shards=2", "numerics.tensor_shards=2", "train.steps=3"};
  for (const Keys& model : {Keys{"model.kind=gpt", "train.dtype=f32"},
                            Keys{"model.kind=llama", "model.kv_heads=1", "train.dtype=bf16"}}) {
    Keys keys = shards;
    keys.insert(keys.end(), model.begin(), model.end());
    expect_same_bits(TinyRun(keys), tensor_layouts());
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MpiSameBits,
                         ::testing::Combine(::testing::Values("gpt", "llama"),
                                            ::testing::Values("f32", "bf16")));

// Ranks plan each for itself, from numbers that they share, and run only if they agree.
TEST(MpiAuto, PlansAsOneAndGivesTheWeightsOfALocalRun) {
  const TinyRun run({"numerics.data_shards=4", "numerics.tensor_shards=2", "train.steps=5"});
  const std::string cache = "XDG_CACHE_HOME";
  ::setenv(cache.c_str(), run.path("cache").c_str(), 1);
  const json alone = run.report();
  Keys open = {"devices.count=4"};
  for (const char* key : {"pipeline", "tensor", "data", "schedule", "zero", "recompute"})
    open.push_back(std::string("parallel.") + key + "=auto");
  for (const char* memory : {"64MiB", "1100KiB"}) {
    Keys keys = open;
    keys.push_back(std::string("devices.memory=") + memory);
    for (const int ranks : {0, 4}) {
      const json report = run.report(keys, {"--overwrite"}, ranks);
      EXPECT_EQ(report["weights"], alone["weights"]) << memory << " on " << ranks << " ranks";
      EXPECT_EQ(report["devices"].size(), 4u);
      for (const json& device : report["devices"])
        EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
    }
  }
  const Answer answer = run.train(open, {"--overwrite"}, 4);
  EXPECT_EQ(answer.exit, 0) << answer.err;
  const std::size_t first = answer.out.find("auto: pipeline ");
  ASSERT_NE(first, std::string::npos) << answer.out;
  EXPECT_EQ(answer.out.find("auto: pipeline ", first + 1), std::string::npos) << "said twice";
  ::unsetenv(cache.c_str());
}

// ── Resume ───────────────────────────────────────────────────────────────────────────────────────

TEST(MpiResume, UnderAnotherLayoutGivesTheSameWeights) {
  const Keys shards = {"numerics.data_shards=2", "train.checkpoint_every=10", "train.keep=3"};
  const TinyRun run(shards);
  const Layout saved = {2, {"parallel.data=2"}};
  const Layout resumed = {3, {"parallel.pipeline=3"}};
  const json whole = run.report();

  ASSERT_TRUE(run.report(saved.keys, {"--overwrite"}, saved.ranks).contains("weights"));
  const std::string half = "--resume=" + run.out() + "/checkpoints/step-00000010";
  for (int ranks : {0, 3}) {
    const json report = run.report(resumed.keys, {half}, ranks);
    EXPECT_EQ(report["weights"], whole["weights"]) << report;
    EXPECT_EQ(report["loss"].size(), 10u);
  }
  // And back: saved by threads, resumed by ranks.
  ASSERT_TRUE(run.report(resumed.keys, {"--overwrite"}).contains("weights"));
  const json back = run.report(saved.keys, {half}, saved.ranks);
  EXPECT_EQ(back["weights"], whole["weights"]) << back;
}

// ── Usage ────────────────────────────────────────────────────────────────────────────────────────

TEST(MpiUsage, WrongKeysExitTwoWithOneSentence) {
  const TinyRun run;
  const std::vector<std::pair<Keys, std::string>> cases = {
      {{"parallel.pipeline=3", "devices.count=3"},
       "cleave: rank 0: devices.count is 3, but mpirun or srun started 2 processes; make them "
       "equal\n"},
      {{"parallel.pipeline=2", "devices.transport=local"},
       "cleave: rank 0: devices.transport is \"local\", but mpirun or srun started 2 processes; "
       "leave the key out, or start cleave without them\n"},
      {{"parallel.pipeline=2", "data.path=/nowhere"},
       "cleave: rank 0: cannot read data.path /nowhere: No such file or directory; set it to "}};
  for (const auto& [keys, sentence] : cases) {
    const Answer answer = run.train(keys, {}, 2);
    EXPECT_EQ(answer.exit, 2);
    EXPECT_EQ(answer.out, "");
    EXPECT_NE(answer.err.find(sentence), std::string::npos) << answer.err;
    EXPECT_EQ(lines_of_cleave(answer.err), 1) << answer.err;
    EXPECT_FALSE(std::filesystem::exists(run.out()));
  }
}

TEST(MpiUsage, NeedsMpirun) {
  const Answer answer = TinyRun().train({"devices.transport=mpi"});
  EXPECT_EQ(answer.exit, 2);
  EXPECT_EQ(answer.err,
            "cleave: devices.transport is \"mpi\", but neither mpirun nor srun started this "
            "process; start it with mpirun -np 1, or set devices.transport to \"local\"\n");
}

TEST(MpiUsage, OnlyTheFirstRankWritesToStdout) {
  const Answer answer = TinyRun().train({"parallel.pipeline=2", "train.steps=2"}, {}, 2);
  EXPECT_EQ(answer.exit, 0) << answer.err;
  EXPECT_EQ(answer.out.find("59.6K parameters"), 0u) << answer.out;
  EXPECT_EQ(answer.out.find("59584 parameters", 1), std::string::npos);
  EXPECT_EQ(answer.out.find("\nweights "), answer.out.rfind("\nweights ")) << answer.out;
  EXPECT_EQ(answer.out.find('\x1b'), std::string::npos) << "mpirun's pty is no terminal";
}

TEST(MpiUsage, PlansOnceForAllRanks) {
  const TinyRun run;
  const Answer answer = testing::run(testing::cleave_command(
      {"plan", run.path("run.toml"), "--set", "parallel.pipeline=2", "--json"}, 2));
  ASSERT_EQ(answer.exit, 0) << answer.err;
  EXPECT_EQ(json::parse(answer.out)["planned_bytes"].size(), 2u) << "one object, of two devices";
}

// ── Bigger than a device ─────────────────────────────────────────────────────────────────────────

TEST(MpiMemory, WhatFitsOnNoDeviceTrainsOnSeveral) {
  const TinyRun run({"model.layers=8", "model.hidden=128", "train.steps=2", "model.vocab=256",
                     "devices.memory=19MiB"});
  const Answer alone = run.train({}, {}, 1);
  EXPECT_EQ(alone.exit, 3) << alone.out << alone.err;
  EXPECT_NE(alone.err.find("device 0 needs "), std::string::npos) << alone.err;
  EXPECT_NE(alone.err.find("and has 19.0 MiB (19922944 bytes)"), std::string::npos) << alone.err;
  EXPECT_FALSE(std::filesystem::exists(run.out()));
  for (int ranks : {2, 3, 4}) {
    const json report =
        run.report({"parallel.pipeline=" + std::to_string(ranks)}, {"--overwrite"}, ranks);
    ASSERT_TRUE(report.contains("weights")) << report;
    for (const json& device : report["devices"]) {
      EXPECT_LE(device["peak_bytes"], device["budget_bytes"]);
      EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
    }
  }
}

TEST(MpiMemory, WhatFitsOnNoDeviceGeneratesOnSeveral) {
  const TinyRun run({"train.steps=2", "parallel.pipeline=2"});
  ASSERT_EQ(run.train({}, {}, 2).exit, 0);
  const auto generate = [&](const Keys& flags, int ranks) {
    std::vector<std::string> arguments = {"generate", run.out(), "--json", "--prompt", "the "};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return testing::run(testing::cleave_command(arguments, ranks));
  };
  const json alone = json::parse(generate({}, 0).out);
  const std::string less =
      std::to_string(alone["devices"][0]["planned_bytes"].get<std::int64_t>() - 1) + "B";
  const Answer refused = generate({"--memory", less}, 1);
  EXPECT_EQ(refused.exit, 3) << refused.err;
  EXPECT_EQ(lines_of_cleave(refused.err), 1) << refused.err;

  const Answer shared = generate({"--memory", less}, 3);
  ASSERT_EQ(shared.exit, 0) << shared.err;
  const json report = json::parse(shared.out);
  EXPECT_EQ(report["tokens"], alone["tokens"]);
  EXPECT_EQ(report["devices"].size(), 3u);
}

TEST(MpiMemory, WhatIsNotPlannedDoesNotGrowWithTheModel) {
  constexpr std::int64_t kMiB = 1 << 20;
  const TinyRun run({"model.heads=8", "train.steps=2", "parallel.pipeline=2"});
  const json small = run.report({"model.layers=8", "model.hidden=256"}, {"--overwrite"}, 2);
  const json large = run.report({"model.layers=8", "model.hidden=512"}, {"--overwrite"}, 2);
  ASSERT_TRUE(small.contains("weights")) << small;
  ASSERT_TRUE(large.contains("weights")) << large;
  for (std::size_t d = 0; d < 2; ++d) {
    const auto beyond = [&](const json& report) {
      const json& device = report["devices"][d];
      return device["resident_bytes"].get<std::int64_t>() -
             device["planned_bytes"].get<std::int64_t>();
    };
    EXPECT_GT(large["devices"][d]["planned_bytes"].get<std::int64_t>(),
              3 * small["devices"][d]["planned_bytes"].get<std::int64_t>());
    EXPECT_LT(std::abs(beyond(large) - beyond(small)), 16 * kMiB)
        << "device " << d << ": " << beyond(small) << " and " << beyond(large);
    RecordProperty("beyond_plan_" + std::to_string(d), std::to_string(beyond(large)));
  }
}

}  // namespace
}  // namespace cleave
