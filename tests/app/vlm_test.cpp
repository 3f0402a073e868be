// From texts with images to a trained model that reads both, by the commands that a user types.

#include <string>

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

/// 24 conversations about one of three images, about two of them, or about none, and a config.
class Vlm : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string files[] = {"colour.jpg", "grey.png", "bits.png"};
    for (const std::string& file : files)
      dir_.write(file, read_text(source_path("tests/golden/image/" + file)));
    std::string lines;
    for (int i = 0; i < 24; ++i) {
      const int images = i % 4 == 0 ? 0 : i % 4 == 3 ? 2 : 1;
      json entry = {{"image", json::array()}};
      std::string asked;
      std::string answer;
      for (int k = 0; k < images; ++k) {
        const int which = (i + k) % 3;
        entry["image"].push_back(files[which]);
        asked += "<image>";
        answer += "abc"[which];
      }
      entry["conversations"] = {{{"from", "human"}, {"value", asked + "?"}},
                                {{"from", "gpt"}, {"value", answer + "."}}};
      lines += entry.dump() + "\n";
    }
    const Answer packed = run_cleave("data pack " + dir_.write("talk.jsonl", lines) +
                                     " --size 8 --capacity 2 --out " + dir_.path("talk.set"));
    ASSERT_EQ(packed.exit, 0) << packed.err;
    dir_.write("run.toml",
               "[model]\nkind = \"vlm\"\nlayers = 2\nhidden = 32\nheads = 2\nimage = 8\npatch = 4\n"
               "gelu = \"quick\"\n[model.vision]\nlayers = 2\nhidden = 16\nheads = 2\nffn = 32\n"
               "[data]\npath = \"" +
                   dir_.path("talk.set") + "\"\nimages = 2\nvalidation = \"" +
                   dir_.path("talk.set") +
                   "\"\n[train]\nsteps = 60\nbatch = 8\nmicrobatch = 2\nsequence = 16\nlr = 1e-2\n"
                   "checkpoint_every = 0\n[numerics]\ndata_shards = 2\n");
  }

  json train(const std::string& out, const std::string& flags) {
    const Answer answer = run_cleave("train " + dir_.path("run.toml") +
                                     " --json --set train.out=" + dir_.path(out) + " " + flags);
    EXPECT_EQ(answer.exit, 0) << answer.err;
    return answer.exit == 0 ? json::parse(answer.out) : json();
  }

  TemporaryDirectory dir_;
};

TEST_F(Vlm, LearnsWhatImagesShowWithTheSameBitsOnAnyDevices) {
  const json alone = train("alone", "");
  const json spread =
      train("spread", "--set parallel.pipeline=2 --set parallel.data=2 --set parallel.zero=1");

  EXPECT_EQ(alone["weights"], spread["weights"]);
  EXPECT_EQ(alone["validation_loss"], spread["validation_loss"]);
  EXPECT_LT(alone["validation_loss"], 0.2) << alone.dump();
  const Answer evaluated =
      run_cleave("evaluate " + dir_.path("alone") + " --json --data " + dir_.path("talk.set"));
  ASSERT_EQ(evaluated.exit, 0) << evaluated.err;
  EXPECT_NEAR(json::parse(evaluated.out)["loss"].get<double>(),
              alone["validation_loss"].get<double>(), 1e-6);
}

TEST_F(Vlm, SaysWhatItSeesInAnImage) {
  train("seeing", "--set train.steps=200");
  const auto said = [&](const std::string& flags) {
    const Answer answer = run_cleave("generate " + dir_.path("seeing") +
                                     " --temperature 0 --tokens 4 --stop . --json " + flags);
    EXPECT_EQ(answer.exit, 0) << answer.err;
    return answer.exit == 0 ? json::parse(answer.out)["text"].get<std::string>() : "";
  };
  const std::string colour = " --image " + dir_.path("colour.jpg");
  const std::string grey = " --image " + dir_.path("grey.png");

  EXPECT_EQ(said("--prompt '?'" + colour), "a");
  EXPECT_EQ(said("--prompt '?'" + grey), "b");
  EXPECT_EQ(said("--prompt '?' --devices 2" + grey), "b");
  EXPECT_EQ(said("--prompt '<image><image>?'" + colour + grey), "ab");
  EXPECT_EQ(said("--prompt '?'"), "");

  const Answer alone = run_cleave("generate " + dir_.path("seeing") + " --prompt '<image>?'");
  EXPECT_EQ(alone.exit, 2);
  EXPECT_EQ(alone.err,
            "cleave: the prompt has 1 image tokens (<image>) and 0 images; give one image for "
            "each\n");
  const Answer text = run_cleave("generate " + dir_.path("seeing") + " --prompt x --image " +
                                 dir_.path("run.toml"));
  EXPECT_EQ(text.exit, 2);
  EXPECT_NE(text.err.find("run.toml"), std::string::npos) << text.err;
}

TEST_F(Vlm, SaysWhatIsWrong) {
  const auto complaint = [&](const std::string& flags) {
    const Answer answer = run_cleave("train " + dir_.path("run.toml") +
                                     " --set train.out=" + dir_.path("bad") + " " + flags);
    EXPECT_EQ(answer.exit, 2) << flags;
    return answer.err;
  };

  EXPECT_EQ(complaint("--set data.images=1"),
            "cleave: sample 3 of " + dir_.path("talk.set") +
                " has 2 images, and data.images is 1; raise it to 2\n");
  EXPECT_EQ(complaint("--set 'model.train=[\"projektor\"]'"),
            "cleave: model.train names \"projektor\", and no parameter is called so; did you mean "
            "projector?\n");
  // A loaded machine is warned of first.
  EXPECT_TRUE(complaint("--set parallel.pipeline=auto --set devices.count=2")
                  .ends_with("cleave: \"auto\" plans for models whose layers are all alike, and a "
                             "vlm has two kinds; set parallel.pipeline, tensor, data, zero, "
                             "recompute and train.microbatch\n"));
  EXPECT_EQ(complaint("--set model.vision.heads=3"),
            "cleave: model.vision.hidden 16 is not divisible by model.vision.heads 3\n");
}

TEST_F(Vlm, RefusesAnImageTokenWithoutAnImage) {
  dir_.write("bad.csv", "path,caption\ngrey.png,a picture\ncolour.jpg,see <image> here\n");
  const Answer packed =
      run_cleave("data pack " + dir_.path("bad.csv") + " --size 8 --out " + dir_.path("bad.set"));
  ASSERT_EQ(packed.exit, 0) << packed.err;

  const Answer answer =
      run_cleave("train " + dir_.path("run.toml") + " --set train.sequence=32 --set data.path=" +
                 dir_.path("bad.set") + " --set train.out=" + dir_.path("bad"));
  EXPECT_EQ(answer.exit, 2);
  EXPECT_EQ(answer.err, "cleave: sample 1 of " + dir_.path("bad.set") +
                            " has 2 image tokens (<image>) and 1 images; give one image for "
                            "each\n");
}

}  // namespace
}  // namespace cleave
