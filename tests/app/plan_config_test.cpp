#include <cstdlib>

#include "app/tiny_run.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using testing::Answer;
using testing::TinyRun;
using Keys = TinyRun::Keys;

/// Profiles go into the run's own directory, not into the user's.
class PlanConfig : public ::testing::Test {
 protected:
  PlanConfig() { ::setenv("XDG_CACHE_HOME", run_.path("cache").c_str(), 1); }
  ~PlanConfig() override { ::unsetenv("XDG_CACHE_HOME"); }

  Answer plan(const Keys& keys, const Keys& flags = {"--json"}) const {
    std::vector<std::string> arguments = {"plan", run_.path("run.toml")};
    for (const std::string& key : keys) arguments.insert(arguments.end(), {"--set", key});
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return testing::run(testing::cleave_command(std::move(arguments)));
  }

  TinyRun run_;
};

const Keys kOpen = {"devices.count=2",      "devices.memory=2MiB",    "parallel.pipeline=auto",
                    "parallel.data=auto",   "parallel.schedule=auto", "train.microbatch=auto",
                    "parallel.tensor=auto", "train.steps=2"};

TEST_F(PlanConfig, PromisesTheMemoryThatTheRunThenUsesToTheByte) {
  const Answer answer = plan(kOpen);
  ASSERT_EQ(answer.exit, 0) << answer.err;
  const auto planned = nlohmann::json::parse(answer.out);
  EXPECT_EQ(planned["fits"], true);
  EXPECT_GT(planned["step_seconds"], 0);

  const nlohmann::json report = run_.report(kOpen);

  ASSERT_TRUE(report.contains("devices")) << report;
  for (std::size_t d = 0; d < 2; ++d) {
    EXPECT_EQ(report["devices"][d]["peak_bytes"], planned["planned_bytes"][d]);
    EXPECT_EQ(report["devices"][d]["planned_bytes"], planned["planned_bytes"][d]);
  }
}

TEST_F(PlanConfig, DrawsTheMemoryAndTheTimeline) {
  const Answer answer = plan(kOpen, {"--trace", run_.path("step.svg")});

  ASSERT_EQ(answer.exit, 0) << answer.err;
  EXPECT_NE(answer.out.find("auto: pipeline "), std::string::npos) << answer.out;
  EXPECT_NE(answer.out.find("[#"), std::string::npos) << answer.out;
  EXPECT_NE(answer.out.find("per step predicted"), std::string::npos) << answer.out;
  EXPECT_NE(testing::read_text(run_.path("step.svg")).find("<svg"), std::string::npos);
}

TEST_F(PlanConfig, AnswersAlsoWhenNothingFits) {
  const Keys tight = {"devices.count=2", "devices.memory=64KiB", "parallel.pipeline=auto",
                      "parallel.data=auto"};
  const Answer answer = plan(tight);

  EXPECT_EQ(answer.exit, 3);
  EXPECT_EQ(nlohmann::json::parse(answer.out)["fits"], false);
  EXPECT_NE(answer.err.find("no layout fits; in the nearest device"), std::string::npos)
      << answer.err;
  EXPECT_EQ(run_.train(tight).exit, 3);
}

}  // namespace
}  // namespace cleave
