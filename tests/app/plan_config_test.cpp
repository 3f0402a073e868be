#include <cstdlib>
#include <sstream>
#include <string>

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

/// Whether the machine is busy is not what these tests are about.
std::string without_warnings(const std::string& text) {
  std::istringstream lines(text);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("cleave: warning: ")) kept += line + '\n';
  }
  return kept;
}

TEST_F(PlanConfig, NamesTheOnlyKeyThatIsNotOpenWhereNothingFits) {
  Keys keys = kOpen;
  keys.insert(keys.end(), {"devices.memory=1KiB", "train.microbatch=2", "parallel.zero=auto",
                           "parallel.recompute=auto", "devices.emulate=\"f=1ms,i=1ms,w=1ms\""});
  const Answer answer = run_.train(keys);
  EXPECT_EQ(answer.exit, 3);
  EXPECT_NE(answer.err.find("use more devices, set train.microbatch to \"auto\", or make"),
            std::string::npos)
      << answer.err;
}

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

// Sleeping devices take what they should or longer, so that hiding latency shows on a busy machine.
TEST_F(PlanConfig, LooksAheadOfSlowLinksAndTheRunDoesSo) {
  const Keys slow = {"parallel.pipeline=2", "train.microbatch=1", "train.batch=8", "train.steps=3",
                     "devices.emulate=\"f=4ms,i=4ms,w=4ms,link=30ms\""};
  Keys plain = slow;
  plain.insert(plain.end(), {"parallel.receive_ahead=1", "parallel.early=0"});
  const auto planned = nlohmann::json::parse(plan(slow).out);
  const double without = nlohmann::json::parse(plan(plain).out)["step_seconds"];

  const nlohmann::json report = run_.report(slow);

  EXPECT_GT(planned["layout"]["receive_ahead"], 1);
  EXPECT_GT(planned["layout"]["early"], 0);
  EXPECT_LT(planned["step_seconds"], 0.5 * without);
  EXPECT_GT(report["step_seconds"], 0.98 * planned["step_seconds"].get<double>());
  EXPECT_LT(report["step_seconds"], without);
  EXPECT_NE(plan(slow, {}).out.find("against latency receives are posted "), std::string::npos);
}

// ZeRO and recompute only come in where a plain run does not fit; they change no bit.
TEST_F(PlanConfig, RescuesARunThatDoesNotFitWithoutChangingABit) {
  const Keys given = {"devices.count=2", "parallel.data=2", "train.steps=4"};
  const nlohmann::json plain = run_.report(given);
  const std::int64_t needed = plain["devices"][0]["planned_bytes"];
  Keys tight = given;
  tight.push_back("devices.memory=" + std::to_string(needed - 1));
  ASSERT_EQ(run_.train(tight, {"--overwrite"}).exit, 3);
  tight.insert(tight.end(), {"parallel.zero=auto", "parallel.recompute=auto"});

  const nlohmann::json saved = run_.report(tight, {"--overwrite"});

  EXPECT_EQ(saved["weights"], plain["weights"]);
  EXPECT_EQ(saved["loss"], plain["loss"]);
  EXPECT_LT(saved["devices"][0]["peak_bytes"], needed);
  EXPECT_EQ(saved["devices"][0]["peak_bytes"], saved["devices"][0]["planned_bytes"]);
}

TEST_F(PlanConfig, SaysWhyTheOthersLost) {
  Keys tight = kOpen;
  tight.insert(tight.end(),
               {"devices.memory=660KiB", "parallel.zero=auto", "parallel.recompute=auto"});
  const Answer answer = plan(tight, {});

  ASSERT_EQ(answer.exit, 0) << answer.err;
  for (const char* words : {"why not", "chosen", "lacks"})
    EXPECT_NE(answer.out.find(words), std::string::npos) << answer.out;
  const auto candidates = nlohmann::json::parse(plan(tight).out)["candidates"];
  for (const auto& candidate : candidates)
    EXPECT_EQ(candidate["fits"], candidate["lacks_bytes"] == 0) << candidate;
}

TEST_F(PlanConfig, DrawsTheMemoryAndTheTimeline) {
  const Answer answer = plan(kOpen, {"--trace", run_.path("step.svg")});

  ASSERT_EQ(answer.exit, 0) << answer.err;
  EXPECT_TRUE(answer.out.starts_with("auto: the ")) << answer.out;
  EXPECT_NE(answer.out.find("[#"), std::string::npos) << answer.out;
  EXPECT_NE(answer.out.find("per step predicted"), std::string::npos) << answer.out;
  EXPECT_NE(testing::read_text(run_.path("step.svg")).find("<svg"), std::string::npos);
}

TEST_F(PlanConfig, SaysWhatMakesNoSenseAndWhatWould) {
  const Keys open = {"parallel.pipeline=auto", "parallel.data=auto"};
  const auto refused = [&](const Keys& keys, const Keys& flags = {}) {
    Keys all = open;
    all.insert(all.end(), keys.begin(), keys.end());
    const Answer answer = plan(all, flags);
    EXPECT_EQ(answer.exit, 2) << answer.out;
    return answer.err;
  };
  EXPECT_NE(refused({"devices.count=7"}).find("must divide train.batch 4"), std::string::npos);
  EXPECT_NE(refused({"devices.count=2", "parallel.partition=[1,1,1,1,0]"})
                .find("the 5 stages of parallel.partition"),
            std::string::npos);
  EXPECT_NE(refused({"devices.count=2", "parallel.chunks=9"}).find("pipeline x chunks 9"),
            std::string::npos);
  EXPECT_NE(refused({"devices.count=2"}, {"--layout", "tp=2"}).find("not both"), std::string::npos);
}

TEST_F(PlanConfig, AnswersAlsoWhenNothingFits) {
  const Keys tight = {"devices.count=2", "devices.memory=64KiB", "parallel.pipeline=auto",
                      "parallel.data=auto"};
  const Answer answer = plan(tight);

  EXPECT_EQ(answer.exit, 3);
  EXPECT_EQ(nlohmann::json::parse(answer.out)["fits"], false);
  EXPECT_NE(answer.err.find("set parallel.tensor, parallel.zero, parallel.recompute to \"auto\""),
            std::string::npos)
      << answer.err;
  EXPECT_NE(answer.err.find("raise devices.memory to "), std::string::npos) << answer.err;
  EXPECT_EQ(run_.train(tight).exit, 3);
  EXPECT_EQ(without_warnings(run_.train(tight).err), without_warnings(answer.err));
}

TEST_F(PlanConfig, SaysSoWhereThereIsOneLayoutOnly) {
  const Keys one = {"parallel.pipeline=auto", "devices.count=1"};
  const Answer fits = plan(one, {});
  const Answer tight = plan({one[0], one[1], "devices.memory=64KiB"});

  EXPECT_TRUE(fits.out.starts_with("auto: the only layout\n")) << fits.out;
  EXPECT_NE(tight.err.find("cleave: the only layout (pipeline 1 x "), std::string::npos)
      << tight.err;
}

TEST_F(PlanConfig, NamesTheBytesOfEveryDeviceAndItsLayers) {
  const Answer answer =
      plan({"devices.count=4", "parallel.tensor=2", "parallel.pipeline=2", "devices.memory=4MiB"});
  ASSERT_EQ(answer.exit, 0) << answer.err;

  const auto planned = nlohmann::json::parse(answer.out);

  EXPECT_EQ(planned["budget_bytes"], nlohmann::json(std::vector(4, 4 << 20)));
  ASSERT_EQ(planned["planned_bytes"].size(), 4u);
  EXPECT_EQ(planned["planned_bytes"][0], planned["planned_bytes"][1]);
  const std::vector<int> layers = planned["layout"]["partition"];
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0] + layers[1], 4);
}

// Emulated devices hold no model, but a budget is one for the model: plan and run agree on it.
TEST_F(PlanConfig, HoldsBudgetsOfEmulatedDevicesAgainstTheModel) {
  const Keys pipeline = {"parallel.pipeline=2", "train.steps=1"};
  const auto needed = nlohmann::json::parse(plan(pipeline).out)["memory_bytes"].get<std::int64_t>();
  for (const char* schedule : {"1f1b", "auto"}) {
    for (const bool fits : {true, false}) {
      Keys keys = pipeline;
      keys.insert(keys.end(), {"devices.emulate=\"f=1ms,i=1ms,w=1ms\"",
                               std::string("parallel.schedule=") + schedule,
                               "devices.memory=" + std::to_string(fits ? needed : needed / 2)});
      const Answer planned = plan(keys);
      const Answer run = run_.train(keys, {"--json"});
      EXPECT_EQ(planned.exit, fits ? 0 : 3) << planned.err;
      EXPECT_EQ(run.exit, fits ? 0 : 3) << run.err;
      EXPECT_EQ(nlohmann::json::parse(planned.out)["fits"], fits);
      if (!fits) continue;
      const auto device = nlohmann::json::parse(run.out)["devices"][0];
      EXPECT_EQ(device["budget_bytes"], needed);
      EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
    }
  }
}

}  // namespace
}  // namespace cleave
