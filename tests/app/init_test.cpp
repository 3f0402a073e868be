// The configs that `cleave init` writes train, from any directory.

#include "app/run_cleave.h"
#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

using testing::Answer;
using testing::run_cleave;
using testing::TemporaryDirectory;

TEST(Init, WritesATextConfigThatTrainsFromAnotherDirectory) {
  const TemporaryDirectory here;
  const TemporaryDirectory elsewhere;
  ASSERT_EQ(run_cleave("init text --output " + here.path("run.toml")).exit, 0);
  std::filesystem::rename(here.path("run.toml"), elsewhere.path("copied.toml"));

  const Answer answer = run_cleave(
      "train " + elsewhere.path("copied.toml") +
      " --json --set train.steps=2 --set train.batch=2 --set train.warmup=0 --set train.out=" +
      elsewhere.path("out"));

  ASSERT_EQ(answer.exit, 0) << answer.err;
  EXPECT_EQ(nlohmann::json::parse(answer.out)["steps"], 2);
}

/// A small model with a config.json: what --model takes.
std::string begun_in(const TemporaryDirectory& directory) {
  const std::string config = directory.path("begun.toml");
  EXPECT_EQ(run_cleave("init text --output " + config).exit, 0);
  const Answer answer = run_cleave("train " + config +
                                   " --set train.steps=1 --set train.batch=2 --set train.warmup=0"
                                   " --set model.layers=1 --set model.hidden=32 --set train.out=" +
                                   directory.path("begun"));
  EXPECT_EQ(answer.exit, 0) << answer.err;
  return directory.path("begun/checkpoints/step-00000001");
}

TEST(Init, WritesConfigsThatLoadForEveryPurpose) {
  const TemporaryDirectory model;
  const std::string begun = begun_in(model);
  const auto purposes = nlohmann::json::parse(run_cleave("init --json").out)["purposes"];
  ASSERT_EQ(purposes.size(), 5u);
  for (const auto& purpose : purposes) {
    const TemporaryDirectory directory;
    const std::string name = purpose["name"];
    const std::string config = directory.path("run.toml");
    ASSERT_EQ(run_cleave("init " + name + " --model " + begun + " --output " + config).exit, 0);
    const Answer answer = run_cleave(
        "train " + config +
        " --print-config --set devices.count=1 --set parallel.pipeline=1 --set parallel.tensor=1"
        " --set parallel.data=1 --set parallel.schedule=1f1b --set parallel.zero=0"
        " --set train.microbatch=1");
    EXPECT_EQ(answer.exit, 0) << name << ": " << answer.err;
  }
}

TEST(Init, WritesConfigsForImagesClientsAndFineTuningThatTrain) {
  const TemporaryDirectory model;
  const std::string begun = begun_in(model);
  for (const std::string& purpose :
       std::vector<std::string>{"vision", "edge", "fine-tune --model " + begun}) {
    const TemporaryDirectory here;
    const TemporaryDirectory elsewhere;
    ASSERT_EQ(run_cleave("init " + purpose + " --output " + here.path("run.toml")).exit, 0);
    std::filesystem::rename(here.path("run.toml"), elsewhere.path("copied.toml"));

    const Answer answer =
        run_cleave("train " + elsewhere.path("copied.toml") +
                   " --json --set train.steps=2 --set train.batch=8 --set train.warmup=0");

    ASSERT_EQ(answer.exit, 0) << purpose << ": " << answer.err;
    const auto report = nlohmann::json::parse(answer.out);
    EXPECT_EQ(report["steps"], 2) << purpose;
    EXPECT_LT(report["loss"].back(), report["loss"].front()) << purpose;
  }
}

TEST(Init, WritesATemplateWhereTheTokenizerHasNoTokensForTurns) {
  const TemporaryDirectory directory;
  const std::string begun = begun_in(directory);
  ASSERT_EQ(run_cleave("init fine-tune --model " + begun + " --data " + begun +
                       "/config.json --output " + directory.path("a.toml"))
                .exit,
            0);
  EXPECT_NE(testing::read_text(directory.path("a.toml")).find("\n[data.template]\n"),
            std::string::npos);
}

TEST(Init, LeavesNothingBehindWhereSomethingIsMissing) {
  const TemporaryDirectory directory;
  const std::string config = directory.path("run.toml");
  const Answer without = run_cleave("init fine-tune --output " + config);
  EXPECT_EQ(without.exit, 2);
  EXPECT_EQ(without.err,
            "cleave: fine-tune goes on with a model: give its Hugging Face directory, as in cleave "
            "init fine-tune --model DIR\n");
  const std::string text = directory.write("notes.txt", "no images");
  const Answer images = run_cleave("init vision --data " + text + " --output " + config);
  EXPECT_EQ(images.exit, 2);
  EXPECT_EQ(images.err, "cleave: " + text +
                            " is no packed set of images; make one of a folder per class with "
                            "cleave data pack " +
                            text + " --size 64 --out images.set, and give --data images.set\n");
  const Answer alone = run_cleave("init edge --data " + text + " --output " + config);
  EXPECT_EQ(alone.exit, 2);
  EXPECT_NE(
      alone.err.find("has 0 of them; give --data a directory with a file or directory for each"),
      std::string::npos);
  std::filesystem::remove(text);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path("")));
}

}  // namespace
}  // namespace cleave
