#include <filesystem>
#include <string>
#include <vector>

#include "app/run_cleave.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cleave/checkpoint/writer.h"

namespace cleave {
namespace {

using testing::Answer;
using testing::run_cleave;
using testing::TemporaryDirectory;

/// A run's out directory with one checkpoint of one parameter.
std::string saved_run(const TemporaryDirectory& directory, const std::string& out = "out",
                      const std::string& parameter = "w") {
  const std::filesystem::path root = directory.path(out + "/checkpoints");
  const checkpoint::CheckpointLayout layout({{parameter, {3, 2}, {"m", "v"}}});
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  checkpoint::prepare_checkpoint(root, 10, layout);
  checkpoint::CheckpointWriter writer(root, 10, layout, 0);
  for (int part : {-1, 0, 1}) writer.write(static_cast<checkpoint::Part>(part), 0, 0, values);
  writer.finish();
  commit_checkpoint(root, layout, {.step = 10, .config = "[train]\n", .version = "1"}, 1, 2);
  return directory.path(out);
}

TEST(CheckpointCommand, InspectsTheLatestOfARun) {
  const TemporaryDirectory directory;
  const std::string out = saved_run(directory);

  const Answer text = run_cleave("checkpoint inspect " + out);
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_NE(text.out.find("step 10, seed 0, saved by cleave 1\n6 parameters in 1 tensors"),
            std::string::npos)
      << text.out;
  const auto json = nlohmann::json::parse(run_cleave("checkpoint inspect --json " + out).out);
  EXPECT_EQ(json["step"], 10);
  EXPECT_EQ(json["tensors"][0]["shape"], (std::vector{3, 2}));
}

TEST(CheckpointCommand, PrintsNamesThatOthersGaveAsText) {
  const TemporaryDirectory directory;
  const Answer text =
      run_cleave("checkpoint inspect " + saved_run(directory, "out", "w\x1b[2J\nstep 11"));
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_NE(text.out.find("\nw\\x1b[2J\\x0astep 11 "), std::string::npos) << text.out;
}

TEST(CheckpointCommand, PrintsPathsThatAreNoTextInJson) {
  const TemporaryDirectory directory;
  const std::string out = saved_run(directory, "caf\xe9");
  for (const char* verb : {"verify", "inspect"}) {
    const Answer answer = run_cleave(std::string("checkpoint ") + verb + " --json " + out);
    EXPECT_EQ(answer.exit, 0) << answer.err;
    EXPECT_EQ(nlohmann::json::parse(answer.out)["path"],
              directory.path("caf\ufffd/checkpoints/step-00000010"));
  }
}

TEST(CheckpointCommand, VerifiesAndNamesDamage) {
  const TemporaryDirectory directory;
  const std::string out = saved_run(directory);
  const Answer sound = run_cleave("checkpoint verify " + out);
  EXPECT_EQ(sound.exit, 0);
  EXPECT_EQ(sound.out, "verified: " + out + "/checkpoints/step-00000010\n");

  const std::string model = out + "/checkpoints/step-00000010/model.safetensors";
  std::filesystem::resize_file(model, 100);
  const Answer damaged = run_cleave("checkpoint verify " + out);
  EXPECT_EQ(damaged.exit, 1);
  EXPECT_TRUE(damaged.out.starts_with(model + " has 100 bytes instead of ")) << damaged.out;
  const auto json = nlohmann::json::parse(run_cleave("checkpoint verify --json " + out).out);
  EXPECT_EQ(json["verified"], false);
  EXPECT_EQ(json["problems"].size(), 1u);

  const Answer inspected = run_cleave("checkpoint inspect " + out);
  EXPECT_EQ(inspected.exit, 2);
  EXPECT_TRUE(inspected.err.starts_with("cleave: " + model)) << inspected.err;
}

TEST(CheckpointCommand, SaysWhenThereIsNone) {
  const Answer answer = run_cleave("checkpoint verify /nowhere");
  EXPECT_EQ(answer.exit, 2);
  EXPECT_EQ(answer.err,
            "cleave: there is no checkpoint in /nowhere; give a step-… directory, the out "
            "directory of a run, or a Hugging Face directory\n");
}

}  // namespace
}  // namespace cleave
