// Checkpoints of real runs: resumed under other layouts, damaged, killed while they are written.

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "app/tiny_run.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Answer;
using testing::Process;
using testing::TinyRun;
using Keys = TinyRun::Keys;

std::string checkpoint(const TinyRun& run, int step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08d", step);
  return run.out() + "/checkpoints/" + name;
}

void flip_bit(const std::string& path, std::int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const int byte = file.get();
  file.seekp(offset);
  file.put(static_cast<char>(byte ^ 4));
}

TEST(TrainResume, UnderAnotherLayoutGivesTheSameWeights) {
  const TinyRun run({"numerics.data_shards=2", "train.checkpoint_every=10", "train.dtype=bf16"});
  const json whole = run.report();
  const Keys layouts[] = {{"parallel.pipeline=1"}, {"parallel.pipeline=3"}, {"parallel.data=2"}};
  for (const Keys& saved : layouts) {
    for (const Keys& resumed : layouts) {
      if (saved == resumed) continue;
      ASSERT_TRUE(run.report(saved, {"--overwrite"}).contains("weights"));
      const json report = run.report(resumed, {"--resume=" + checkpoint(run, 10)});
      EXPECT_EQ(report["weights"], whole["weights"]) << saved[0] << ", " << resumed[0] << report;
    }
  }
}

TEST(TrainResume, OfAFinishedRunChangesNothing) {
  const TinyRun run;
  const json whole = run.report();
  const std::string files[] = {run.out() + "/config.toml", run.out() + "/log.jsonl",
                               checkpoint(run, 20) + "/manifest.json"};
  std::vector<fs::file_time_type> before;
  for (const std::string& file : files) before.push_back(fs::last_write_time(file));

  const Answer again = run.train({"parallel.pipeline=2"}, {"--resume"});
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_NE(again.out.find("finished already, after step 20; raise train.steps to go on\n"),
            std::string::npos)
      << again.out;
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(fs::last_write_time(files[i]), before[i]) << files[i];
  }
  EXPECT_EQ(run.report({}, {"--resume"})["weights"], whole["weights"]);
}

TEST(TrainResume, RefusesAFlippedBitAndSaysWhichCheckpointIsLeft) {
  const TinyRun run({"train.checkpoint_every=10"});
  const json whole = run.report();
  const std::string model = checkpoint(run, 20) + "/model.safetensors";
  flip_bit(model, static_cast<std::int64_t>(fs::file_size(model)) - 3);

  const Answer refused = run.train({"train.steps=30"}, {"--resume"});
  EXPECT_EQ(refused.exit, 2);
  EXPECT_EQ(refused.err, "cleave: " + model +
                             " has tensor \"transformer.wte.weight\" with a wrong checksum; to go "
                             "on from an older one pass --resume=" +
                             checkpoint(run, 10) + "\n");
  const json older = run.report({}, {"--resume=" + checkpoint(run, 10)});
  EXPECT_EQ(older["weights"], whole["weights"]) << older;
  EXPECT_EQ(testing::run_cleave("checkpoint verify " + run.out()).exit, 0);
}

TEST(TrainResume, RefusesAnotherModel) {
  const TinyRun run;
  run.report();
  const Answer heads = run.train({"model.heads=8"}, {"--resume"});
  EXPECT_EQ(heads.exit, 2);
  EXPECT_EQ(heads.err, "cleave: model.heads is 8, but " + checkpoint(run, 20) +
                           " was trained with 4; resume with the same model, or begin another run "
                           "in another train.out\n");
}

TEST(TrainResume, BeginsAgainIfNothingWasSaved) {
  const TinyRun run({"train.steps=2"});
  fs::create_directories(run.out() + "/checkpoints");
  run.directory().file("out/config.toml", "");
  EXPECT_EQ(run.report({}, {"--resume"})["loss"].size(), 2u);
}

}  // namespace
}  // namespace cleave
