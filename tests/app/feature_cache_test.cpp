// data.cache: what a tower that does not learn gives is computed once, and changes no bit.

#include <filesystem>
#include <string>
#include <vector>

#include "app/run_cleave.h"
#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cleave/base/file.h"

namespace cleave {
namespace {

using testing::Answer;
using testing::run_cleave;
using testing::source_path;
using testing::TemporaryDirectory;
using json = nlohmann::json;
namespace fs = std::filesystem;

/// 12 conversations about no image, one or two, and a config whose tower does not learn.
class FeatureCache : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<std::string> files = {"colour.jpg", "grey.png", "bits.png"};
    for (const std::string& file : files)
      dir_.write(file, read_text(source_path("tests/golden/image/" + file)));
    std::string lines;
    for (int i = 0; i < 12; ++i) {
      json entry = {{"image", json::array()}};
      std::string asked;
      for (int k = 0; k < i % 3; ++k) {
        entry["image"].push_back(files[static_cast<std::size_t>((i + k) % 3)]);
        asked += "<image>";
      }
      entry["conversations"] = {{{"from", "human"}, {"value", asked + "?"}},
                                {{"from", "gpt"}, {"value", std::to_string(i)}}};
      lines += entry.dump() + "\n";
    }
    const Answer packed = run_cleave("data pack " + dir_.write("talk.jsonl", lines) +
                                     " --size 8 --capacity 2 --out " + dir_.path("talk.set"));
    ASSERT_EQ(packed.exit, 0) << packed.err;
    dir_.write("run.toml",
               "[model]\nkind = \"vlm\"\nlayers = 2\nhidden = 32\nheads = 2\nimage = 8\npatch = 4\n"
               "train = [\"projector\", \"language\"]\n"
               "[model.vision]\nlayers = 3\nhidden = 16\nheads = 2\nffn = 32\n"
               "[data]\npath = \"" +
                   dir_.path("talk.set") + "\"\nimages = 3\nvalidation = 0.25\n" +
                   "[train]\nsteps = 4\nbatch = 8\nmicrobatch = 2\nsequence = 16\nlr = 1e-2\n"
                   "checkpoint_every = 0\n[numerics]\ndata_shards = 2\n");
  }

  Answer run(const std::string& flags) const {
    return run_cleave("train " + dir_.path("run.toml") + " --set train.out=" + dir_.path("out") +
                      " " + flags);
  }
  json train(const std::string& flags) const {
    const Answer answer = run("--overwrite --json " + flags);
    EXPECT_EQ(answer.exit, 0) << flags << answer.err;
    return answer.exit == 0 ? json::parse(answer.out) : json();
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(dir_.path("")))
      if (entry.path().filename().string().starts_with("talk.set.features-"))
        found.push_back(entry.path());
    return found;
  }

  TemporaryDirectory dir_;
};

constexpr const char* kCached = " --set data.cache=true";

TEST_F(FeatureCache, ChangesNoBit) {
  const std::string own = " --set parallel.placement=own --set parallel.vision.pipeline=1";
  const std::string spread = "--set parallel.pipeline=2 --set parallel.data=2";
  const auto expect_same = [&](const std::string& model, const std::vector<std::string>& layouts) {
    const json computed = train(model);
    for (const std::string& layout : layouts) {
      const json kept = train(model + layout + kCached);
      EXPECT_EQ(kept["weights"], computed["weights"]) << model << layout;
      EXPECT_EQ(kept["validation_loss"], computed["validation_loss"]) << model << layout;
      for (const json& device : kept["devices"])
        EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]) << model << layout;
    }
  };
  expect_same("", {"", spread, spread + " --set parallel.zero=3" + own});
  expect_same("--set train.dtype=bf16 ", {spread});
  expect_same("--set 'model.vision.deepstack=[0, 1]' ", {"", spread + own});
  expect_same("--set 'model.train=[\"projector\"]' ", {spread});
  expect_same("--set model.vision.class_token=false --set model.projector.shuffle=2 ", {""});
}

TEST_F(FeatureCache, IsComputedOnce) {
  const Answer first = run(kCached);
  EXPECT_NE(first.out.find(": 0 of 12 images are there, 12 to compute, once; no step computes the "
                           "tower\n"),
            std::string::npos)
      << first.out << first.err;
  ASSERT_EQ(files().size(), 1u);
  // Four rows of 16 f32 for each image and a hash, after 64 bytes.
  EXPECT_EQ(fs::file_size(files()[0]), 64u + 12 * (4 * 16 * 4 + 8));
  const fs::file_time_type written = fs::last_write_time(files()[0]);

  const Answer second = run("--overwrite" + std::string(kCached));
  EXPECT_NE(second.out.find(": 12 of 12 images are there, 0 to compute"), std::string::npos)
      << second.out;
  EXPECT_EQ(fs::last_write_time(files()[0]), written);
  EXPECT_EQ(second.out.find("vision block"), std::string::npos) << second.out;

  run("--overwrite --set train.seed=2" + std::string(kCached));  // another tower
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(FeatureCache, GoesOnWithWhatAnEndedRunHasLeft) {
  const json whole = train(kCached);
  ASSERT_EQ(files().size(), 1u);
  const fs::path file = files()[0];
  const std::string bytes = read_text(file);
  const std::size_t image = 4 * 16 * 4 + 8;
  dir_.write(file.filename().string() + ".partial", bytes.substr(0, 64 + 5 * image + 100));
  fs::remove(file);

  const Answer again = run("--overwrite" + std::string(kCached));
  EXPECT_NE(again.out.find(": 5 of 12 images are there, 7 to compute"), std::string::npos)
      << again.out << again.err;
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(read_text(file), bytes);
}

TEST_F(FeatureCache, NoticesDamage) {
  train(kCached);
  std::string bytes = read_text(files()[0]);
  bytes[64 + 3] = static_cast<char>(bytes[64 + 3] ^ 1);
  dir_.write(files()[0].filename().string(), bytes);

  const Answer damaged = run("--overwrite" + std::string(kCached));
  EXPECT_EQ(damaged.exit, 2);
  EXPECT_NE(damaged.err.find(files()[0].string() + " was damaged since it was written; remove it"),
            std::string::npos)
      << damaged.err;
  dir_.write(files()[0].filename().string(), bytes.substr(0, 200));
  EXPECT_NE(run("--overwrite" + std::string(kCached)).err.find("; remove it"), std::string::npos);
}

TEST_F(FeatureCache, GoesOnAfterACheckpointAndAnswersAboutImages) {
  const std::string ask = "generate " + dir_.path("out") +
                          " --temperature 0 --tokens 4 --prompt '?' --image " +
                          dir_.path("grey.png");
  const auto weights_and_answer = [&](const std::string& flags) {
    train("--set train.steps=2" + flags);
    const Answer resumed = run("--resume --json" + flags);
    EXPECT_EQ(resumed.exit, 0) << resumed.err;
    const Answer said = run_cleave(ask);
    EXPECT_EQ(said.exit, 0) << said.err;
    return resumed.exit == 0 ? json::parse(resumed.out)["weights"].dump() + said.out : "";
  };
  EXPECT_EQ(weights_and_answer(kCached), weights_and_answer(""));
  EXPECT_EQ(files().size(), 1u);  // the tower is the same after the checkpoint
}

TEST_F(FeatureCache, IsRefusedWhereImagesOrTheTowerChange) {
  const auto complaint = [&](const std::string& flags) {
    const Answer answer = run(flags + kCached);
    EXPECT_EQ(answer.exit, 2) << flags;
    return answer.err;
  };
  EXPECT_EQ(complaint("--set data.augment=flip"),
            "cleave: data.cache keeps what a tower gives for each image, and data.augment changes "
            "images each time; leave one of them out\n");
  EXPECT_EQ(
      complaint("--set 'model.train=[\"vision\"]'"),
      "cleave: data.cache keeps what the tower of images gives, and "
      "vision_tower.vision_model.embeddings.patch_embedding.weight learns; name what learns in "
      "model.train, such as [\"projector\", \"language\"], or leave data.cache out\n");
  const std::string text = dir_.write("text.toml", "[model]\npreset = \"gpt-tiny\"\n");
  EXPECT_EQ(
      run_cleave("train " + text + kCached).err,
      "cleave: data.cache is of models that put images into a text, and a gpt does not; leave "
      "it out\n");
}

}  // namespace
}  // namespace cleave
