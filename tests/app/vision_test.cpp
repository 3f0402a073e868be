// From image files to a trained classifier, by the commands that a user types.

#include <string>

#include "app/run_cleave.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

using testing::Answer;
using testing::run_cleave;
using testing::TemporaryDirectory;
using json = nlohmann::json;

/// A set of 120 grey images of 8 x 8, bright in the quarter that is their class, and a config.
class Vision : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string images("\0\0\x8\x3\0\0\0\x78\0\0\0\x8\0\0\0\x8", 16);
    std::string labels("\0\0\x8\x1\0\0\0\x78", 8);
    for (int i = 0; i < 120; ++i) {
      const int label = i * 7 % 4;
      labels += static_cast<char>(label);
      for (int p = 0; p < 64; ++p) {
        const int quarter = p / 32 * 2 + p % 8 / 4;
        images += static_cast<char>((quarter == label ? 160 : 40) + (i * 31 + p * 17) % 60);
      }
    }
    dir_.write("t-labels-idx1-ubyte", labels);
    const Answer packed = run_cleave("data pack " + dir_.write("t-images-idx3-ubyte", images) +
                                     " --size 8 --channels 1 --out " + dir_.path("a.set"));
    ASSERT_EQ(packed.exit, 0) << packed.err;
    dir_.write(
        "run.toml",
        "[model]\nkind = \"vit\"\nlayers = 2\nhidden = 16\nheads = 2\nimage = 8\npatch = 4\n"
        "channels = 1\nclasses = 4\n[data]\npath = \"" +
            dir_.path("a.set") +
            "\"\nvalidation = 0.2\n[train]\nsteps = 300\nbatch = 8\nmicrobatch = 2\nlr = 1e-2\n"
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

TEST_F(Vision, LearnsClassesWithTheSameBitsOnAnyDevices) {
  const json alone = train("alone", "");
  const json spread = train("spread", "--set parallel.pipeline=2 --set parallel.data=2");

  EXPECT_EQ(alone["weights"], spread["weights"]);
  EXPECT_EQ(alone["validation_loss"], spread["validation_loss"]);
  EXPECT_EQ(alone["accuracy"], spread["accuracy"]);
  EXPECT_EQ(alone["accuracy"], 1.0) << alone.dump();
}

TEST_F(Vision, GoesOnExactlyWhereItStopped) {
  const json whole = train("whole", "");
  train("parts", "--set train.steps=25 --set train.schedule=constant --set train.warmup=4");
  const json steady = train("steady", "--set train.schedule=constant --set train.warmup=4");
  const json resumed =
      train("parts", "--resume --set train.schedule=constant --set train.warmup=4");

  EXPECT_EQ(resumed["weights"], steady["weights"]);
  EXPECT_NE(resumed["weights"], whole["weights"]);
}

TEST_F(Vision, IsPlannedWhateverItsBlocksAre) {
  const std::string cnn = dir_.write("cnn.toml",
                                     "[model]\nkind = \"cnn\"\nlayers = 2\nhidden = 24\nheads = "
                                     "1\nimage = 16\npatch = 1\nchannels = 1\n"
                                     "classes = 4\n[train]\nbatch = 8\n[devices]\ncount = 3\n"
                                     "[parallel]\npipeline = \"auto\"\n");

  const Answer answer = run_cleave("plan " + cnn + " --json");

  ASSERT_EQ(answer.exit, 0) << answer.err;
  EXPECT_EQ(json::parse(answer.out)["layout"]["pp"], 3) << answer.out;
}

TEST_F(Vision, WritesNoText) {
  train("short", "--set train.steps=1");

  const Answer answer = run_cleave("generate " + dir_.path("short"));

  EXPECT_EQ(answer.exit, 2);
  EXPECT_NE(
      answer.err.find(" has a model of kind vit, which tells images apart and writes no text"),
      std::string::npos)
      << answer.err;
}

TEST_F(Vision, SaysWhatIsWrongWithItsData) {
  const auto complaint = [&](const std::string& flags) {
    const Answer answer = run_cleave("train " + dir_.path("run.toml") +
                                     " --set train.out=" + dir_.path("bad") + " " + flags);
    EXPECT_EQ(answer.exit, 2) << flags;
    return answer.err;
  };

  EXPECT_EQ(complaint("--set model.image=16"),
            "cleave: " + dir_.path("a.set") +
                " has images of 8 x 8 x 1, and the model reads 16 x 16 x 1; pack them with --size "
                "16 --channels 1, or set model.image and model.channels\n");
  EXPECT_EQ(complaint("--set model.patch=3"),
            "cleave: model.image 8 is not divisible by model.patch 3; patches cover an image "
            "without a rest\n");
  EXPECT_EQ(complaint("--set data.path=" + dir_.path("run.toml")),
            "cleave: " + dir_.path("run.toml") +
                " is no packed set of images (it begins with other bytes); make one with cleave "
                "data pack\n");
}

}  // namespace
}  // namespace cleave
