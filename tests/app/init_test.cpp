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

TEST(Init, WritesConfigsThatLoadForEveryPurpose) {
  const auto purposes = nlohmann::json::parse(run_cleave("init --json").out)["purposes"];
  ASSERT_GE(purposes.size(), 2u);
  for (const auto& purpose : purposes) {
    const TemporaryDirectory directory;
    const std::string name = purpose["name"];
    const std::string config = directory.path("run.toml");
    ASSERT_EQ(run_cleave("init " + name + " --output " + config).exit, 0);
    const Answer answer = run_cleave(
        "train " + config +
        " --print-config --set devices.count=1 --set parallel.pipeline=1 --set parallel.tensor=1"
        " --set parallel.data=1 --set parallel.schedule=1f1b --set parallel.zero=0"
        " --set train.microbatch=1");
    EXPECT_EQ(answer.exit, 0) << name << ": " << answer.err;
  }
}

}  // namespace
}  // namespace cleave
