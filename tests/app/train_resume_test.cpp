// Checkpoints of real runs, resumed: under other layouts, with other keys, or with weights alone.

#include <filesystem>

#include "app/saved_steps.h"
#include "support/paths.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Answer;
using testing::TinyRun;
using Keys = TinyRun::Keys;
using testing::checkpoint_of;
using testing::flip_bit;

TEST(TrainResume, UnderAnotherLayoutGivesTheSameWeights) {
  const TinyRun run({"numerics.data_shards=2", "train.checkpoint_every=10", "train.dtype=bf16"});
  const json whole = run.report();
  const Keys layouts[] = {{"parallel.pipeline=1"}, {"parallel.pipeline=3"}, {"parallel.data=2"}};
  for (const Keys& saved : layouts) {
    for (const Keys& resumed : layouts) {
      if (saved == resumed) continue;
      ASSERT_TRUE(run.report(saved, {"--overwrite"}).contains("weights"));
      const json report = run.report(resumed, {"--resume=" + checkpoint_of(run, 10)});
      EXPECT_EQ(report["weights"], whole["weights"]) << saved[0] << ", " << resumed[0] << report;
    }
  }
}

// Saved by cleave 0.1.0: a gpt after 4 of 6 steps, with the weights that it printed.
TEST(TrainResume, GoesOnFromACheckpointOfTheFirstEdition) {
  const std::string saved = testing::source_path("tests/golden/first_edition/step-00000004");
  const TinyRun run({"model.layers=1", "model.hidden=8", "model.heads=2"});
  const json loaded = run.report({"train.steps=4"}, {"--resume=" + saved});
  EXPECT_EQ(loaded["weights"], "8e0af9cc293df033");

  const json one =
      run.report({"train.steps=6", "train.out=" + run.path("one")}, {"--resume=" + saved});
  EXPECT_EQ(one["steps"], 6);
  const json two =
      run.report({"train.steps=6", "train.out=" + run.path("two"), "parallel.pipeline=2"},
                 {"--resume=" + saved});
  EXPECT_EQ(one["weights"], two["weights"]);
}

TEST(TrainResume, RefusesSlotsOfAnotherOptimizer) {
  const TinyRun run;
  run.report();
  const Answer answer = run.train({"train.optimizer=sgd", "train.steps=30"}, {"--resume"});
  EXPECT_EQ(answer.exit, 2);
  EXPECT_NE(answer.err.find("train.optimizer is \"sgd\", but "), std::string::npos) << answer.err;
  EXPECT_NE(answer.err.find(" was trained with \"adamw\"; resume with --set "
                            "train.optimizer=\"adamw\", or begin another run"),
            std::string::npos)
      << answer.err;
}

TEST(TrainResume, OfAFinishedRunChangesNothing) {
  const TinyRun run;
  const json whole = run.report();
  const std::string files[] = {run.out() + "/config.toml", run.out() + "/log.jsonl",
                               checkpoint_of(run, 20) + "/manifest.json"};
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
  const std::string model = checkpoint_of(run, 20) + "/model.safetensors";
  flip_bit(model, static_cast<std::int64_t>(fs::file_size(model)) - 3);

  const Answer refused = run.train({"train.steps=30"}, {"--resume"});
  EXPECT_EQ(refused.exit, 2);
  EXPECT_EQ(refused.err, "cleave: " + model +
                             " has tensor \"transformer.wte.weight\" with a wrong checksum; to go "
                             "on from an older one pass --resume=" +
                             checkpoint_of(run, 10) + "\n");
  const json older = run.report({}, {"--resume=" + checkpoint_of(run, 10)});
  EXPECT_EQ(older["weights"], whole["weights"]) << older;
  EXPECT_EQ(testing::run_cleave("checkpoint verify " + run.out()).exit, 0);
}

TEST(TrainResume, RefusesAnotherModel) {
  const TinyRun run;
  run.report();
  const Answer heads = run.train({"model.heads=8"}, {"--resume"});
  EXPECT_EQ(heads.exit, 2);
  EXPECT_EQ(heads.err, "cleave: model.heads is 8, but " + checkpoint_of(run, 20) +
                           " was trained with 4; resume with --set model.heads=4, or begin another "
                           "run in another train.out\n");
}

TEST(TrainResume, WithAShorterSequenceSaysHowToKeepTheContext) {
  const TinyRun run({"train.steps=2"});
  run.report();
  const Answer refused = run.train({"train.sequence=8"}, {"--resume"});
  EXPECT_EQ(refused.exit, 2);
  EXPECT_NE(refused.err.find("; resume with --set model.context=16, or "), std::string::npos)
      << refused.err;
  const Answer begun = TinyRun().train({"train.sequence=8"}, {"--init-from", run.out()});
  EXPECT_EQ(begun.exit, 2);
  EXPECT_EQ(begun.err, "cleave: model.context is 8, but " + checkpoint_of(run, 2) +
                           " was trained with 16; begin with --set model.context=16\n");

  const Keys shorter = {"train.sequence=8", "model.context=16", "train.steps=4", "train.lr=0.001"};
  const Answer resumed = run.train(shorter, {"--resume"});
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_NE(
      resumed.out.find("\nnot as it was: train.steps 4 (was 2): the learning rate follows the "
                       "new length, 0.000231802 at step 3 instead of 0.001; train.sequence 8 (was "
                       "16), train.lr 0.001 (was 0.01), train.min_lr 0.0001 (was 0.001)\n"),
      std::string::npos)
      << resumed.out;
}

TEST(TrainResume, SaysWhatIsNotAsItWas) {
  const TinyRun run({"train.steps=2", "train.warmup=0"});
  run.report();
  const Answer same = run.train({}, {"--resume"});
  EXPECT_EQ(same.out.find("not as it was"), std::string::npos) << same.out;
  const Keys other = {"train.steps=3",        "train.microbatch=2",     "train.clip=0.5",
                      "train.weight_decay=0", "train.betas=[0.8, 0.9]", "numerics.data_shards=2"};
  run.directory().write("data.txt", testing::read_text(run.path("data.txt")) + "more of it");
  const Answer resumed = run.train(other, {"--resume"});
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  for (const char* words :
       {"train.microbatch 2 (was 1)", "train.clip 0.5 (was 1.0)",
        "train.weight_decay 0.0 (was 0.1)", "train.betas [0.8, 0.9] (was [0.9, 0.95])",
        "numerics.data_shards 2 (was 1)", "what is in the data\n"})
    EXPECT_NE(resumed.out.find(words), std::string::npos) << words << " is not in " << resumed.out;
}

TEST(TrainResume, KeepsTheGridWhateverTheLayout) {
  const Keys grid = {"parallel.data=2", "train.microbatch=2", "train.warmup=0"};
  const TinyRun run(grid);
  run.report({"train.steps=10", "train.min_lr=0.01"});
  const TinyRun whole(grid);
  const json undisturbed = whole.report({"train.min_lr=0.01"});
  // Nothing says what the grid was: neither the microbatch nor the number of replicas.
  const Keys layout = {"parallel.data=1", "parallel.pipeline=2", "train.microbatch=auto",
                       "train.min_lr=0.01"};
  EXPECT_EQ(run.report(layout, {"--resume"})["weights"], undisturbed["weights"]);
}

TEST(TrainResume, BeginsAgainIfNothingWasSaved) {
  const TinyRun run({"train.steps=2"});
  fs::create_directories(run.out() + "/checkpoints");
  run.directory().write("out/config.toml", "");
  EXPECT_EQ(run.report({}, {"--resume"})["loss"].size(), 2u);
}

TEST(TrainSaving, GoesOnInTheBackgroundWhereThereIsRoomAndChangesNothing) {
  const TinyRun run({"parallel.pipeline=2"});
  const json whole = run.report();
  const auto planned = [](const json& report) {
    std::vector<std::int64_t> bytes;
    for (const json& device : report["devices"]) {
      EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
      bytes.push_back(device["planned_bytes"]);
    }
    return bytes;
  };
  const std::vector<std::int64_t> without = planned(whole);
  const Keys often = {"train.checkpoint_every=3", "train.keep=9"};
  Keys tight = often;
  tight.push_back("devices.memory=[\"" + std::to_string(without[0]) + "B\", \"" +
                  std::to_string(without[1]) + "B\"]");
  for (const Keys& keys : {often, tight}) {
    const json report = run.report(keys, {"--overwrite"});
    EXPECT_EQ(report["weights"], whole["weights"]);
    EXPECT_EQ(planned(report) == without, keys == tight);
    for (int step : {3, 6, 9, 12, 15, 18, 20}) {
      EXPECT_EQ(testing::run_cleave("checkpoint verify " + checkpoint_of(run, step)).exit, 0);
    }
    const json resumed = run.report({}, {"--resume=" + checkpoint_of(run, 9)});
    EXPECT_EQ(resumed["weights"], whole["weights"]);
  }
}

// ── Damaged checkpoints ──────────────────────────────────────────────────────────────────────────

TEST(TrainInitFrom, TakesWeightsOnlyAndNamesTheTensorThatDiffers) {
  const TinyRun source({"train.steps=5"});
  source.report();
  const TinyRun run({"train.steps=1", "train.lr=1e-30"});
  const json begun = run.report({}, {"--init-from", source.out()});
  EXPECT_EQ(begun["weights"], source.report({}, {"--resume"})["weights"]) << begun;

  const TinyRun wide({"model.hidden=64"});
  const Answer refused = wide.train({}, {"--init-from", source.out()});
  EXPECT_EQ(refused.exit, 2);
  EXPECT_NE(refused.err.find("has tensor \"transformer.h.0.attn.c_attn.bias\" of shape"),
            std::string::npos)
      << refused.err;
  EXPECT_NE(refused.err.find("it was saved from a model of another architecture\n"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(wide.out()));
}

// As cleave supervise restarts a run that began so.
TEST(TrainInitFrom, GivesWayToTheCheckpointThatARunGoesOnFrom) {
  const TinyRun source({"train.steps=5"});
  source.report();
  const Keys both = {"--resume", "--init-from", source.out()};
  const TinyRun run({"train.steps=4", "train.checkpoint_every=2"});
  const json whole = run.report({}, both);
  EXPECT_EQ(whole["weights"],
            run.report({}, {"--overwrite", "--init-from", source.out()})["weights"])
      << "there was nothing to go on from";
  fs::remove_all(checkpoint_of(run, 4));

  EXPECT_EQ(run.report({}, both)["weights"], whole["weights"]);
  const Answer refused =
      run.train({}, {"--resume=" + checkpoint_of(run, 2), "--init-from", source.out()});
  EXPECT_EQ(refused.err,
            "cleave: --resume=CHECKPOINT and --init-from contradict each other; pass one\n");
}

// ── Signals ──────────────────────────────────────────────────────────────────────────────────────

}  // namespace
}  // namespace cleave
