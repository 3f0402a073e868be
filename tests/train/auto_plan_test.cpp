#include "cleave/train/tune/auto_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "train/auto_config.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/train/loop/forecast.h"
#include "cleave/train/step/trainer.h"
#include "cleave/train/tune/auto_space.h"
#include "cleave/train/tune/run_oracle.h"

namespace cleave::train {
namespace {

comm::LocalLauncher here;

using testing::config_of;
using testing::savings_of;

/// Every way to put `layers` on four stages.
void for_each_partition(std::int64_t layers,
                        const std::function<void(const std::vector<std::int64_t>&)>& visit) {
  for (std::int64_t a = 0; a <= layers; ++a) {
    for (std::int64_t b = 1; a + b <= layers; ++b) {
      for (std::int64_t c = 1; a + b + c <= layers; ++c) visit({a, b, c, layers - a - b - c});
    }
  }
}

TEST(AutoPlan, IsAskedForWhatIsAutoAndForDevicesThatDiffer) {
  EXPECT_FALSE(needs_plan(config_of("[devices]\ncount = 2\n[parallel]\npipeline = 2")));
  EXPECT_TRUE(needs_plan(config_of("[devices]\ncount = 2\n[parallel]\npipeline = \"auto\"")));
  EXPECT_TRUE(needs_plan(
      config_of("[devices]\ncount = 2\nmemory = [\"1MiB\", \"2MiB\"]\n[parallel]\npipeline = 2")));
  EXPECT_FALSE(needs_plan(
      config_of("[devices]\ncount = 2\nmemory = [\"1MiB\", \"2MiB\"]\n[parallel]\npipeline = "
                "2\npartition = [4, 4]")));
}

// Emulated devices take exactly what their config says, so that every plan can be told by
// simulation alone.
TEST(AutoPlan, IsWithinFivePercentOfTheBestOfAllPlansOnUnequalDevices) {
  const std::string devices =
      "[devices]\ncount = 4\nspeed = [1, 1, 2, 4]\nemulate = \"f=4ms,i=4ms,w=3ms\"\n"
      "[parallel]\npipeline = 4\ndata = 1\n";
  const AutoPlan plan = plan_run(config_of(devices + "schedule = \"auto\""), here);
  const double chosen = forecast(plan.choice().config, here).predicted.summary.makespan;

  double best = std::numeric_limits<double>::infinity();
  for (const char* schedule : {"1f1b", "zb-h1"}) {
    Config config = config_of(devices + "schedule = \"" + schedule + "\"");
    for_each_partition(config.model.layers, [&](const std::vector<std::int64_t>& partition) {
      config.parallel.partition = partition;
      best = std::min(best, forecast(config, here).predicted.summary.makespan);
    });
  }

  EXPECT_LE(chosen, 1.05 * best);
  ASSERT_TRUE(plan.choice().config.parallel.partition.has_value());
}

constexpr const char* kSeeing = R"(
[model]
preset = "vlm-tiny"
[data]
images = 1
[train]
batch = 6
microbatch = 1
sequence = 48
[devices]
count = 3
emulate = "f=4ms,i=5ms,w=3ms,per=layer"
[parallel]
pipeline = 3
)";

// Two layers of a tower that is frozen or not, and two of a language model, on three devices: the
// plan is held against every cut under every schedule that is named.
TEST(AutoPlan, IsWithinThreePercentOfTheBestCutOfAModelWithATower) {
  for (const std::vector<std::string>& trained : {std::vector<std::string>{}, {"projector"}}) {
    Config config = parse_config(kSeeing, "test.toml");
    config.trained = trained;
    config.parallel.schedule = "auto";
    config.parallel.zero.reset();  // one replica has nothing to share, but the planner is asked
    const AutoPlan plan = plan_run(config, here);

    RunOracle oracle(here, {});
    double best = std::numeric_limits<double>::infinity();
    for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "zb-h2"}) {
      config.parallel.schedule = schedule;
      config.parallel.zero = 0;
      for (std::int64_t a = 0; a <= config.model.blocks(); ++a) {
        for (std::int64_t b = 1; a + b <= config.model.blocks(); ++b) {
          config.parallel.partition = {a, b, config.model.blocks() - a - b};
          best = std::min(best, oracle.weighed(config).step_seconds);
        }
      }
      config.parallel.partition.reset();
    }
    EXPECT_LE(plan.choice().predicted.step_seconds, 1.03 * best);
  }
}

/// What a run of a real model would hold, although its devices are emulated.
std::vector<std::int64_t> bytes_of_model(Config config) {
  config.devices.emulate.reset();
  config.devices.memory.clear();
  return engine::compile(model_of(config), compile_options(config)).planned_bytes;
}

// The fastest device has the least memory, and cannot take what its speed would have it take.
TEST(AutoPlan, IsWithinThreePercentOfTheBestCutForUnequalSpeedAndMemory) {
  const std::string devices =
      "[devices]\ncount = 4\nspeed = [1, 1, 2, 4]\nemulate = \"f=4ms,i=4ms,w=3ms,per=layer\"\n";
  const std::string budgets = "memory = [\"1040KiB\", \"760KiB\", \"940KiB\", \"660KiB\"]\n";
  const std::string pipeline = "[parallel]\npipeline = 4\n";
  const Config roomy = config_of(devices + pipeline);
  Config config = config_of(devices + budgets + pipeline);
  double best = std::numeric_limits<double>::infinity();
  for_each_partition(config.model.layers, [&](const std::vector<std::int64_t>& partition) {
    config.parallel.partition = partition;
    if (std::ranges::equal(bytes_of_model(config), config.devices.memory, std::less_equal()))
      best = std::min(best, forecast(config, here).predicted.summary.makespan);
  });
  ASSERT_TRUE(std::isfinite(best));
  config.parallel.partition.reset();

  const AutoPlan plan = plan_run(config, here);

  ASSERT_FALSE(plan.fitting.empty());
  EXPECT_LE(plan.choice().predicted.step_seconds, 1.03 * best);
  EXPECT_LT(plan_run(roomy, here).choice().predicted.step_seconds, best)
      << "memory does not matter";
}

TEST(AutoPlan, DecidesEverythingThatWasAuto) {
  const AutoPlan plan = plan_run(
      config_of("microbatch = \"auto\"\n[devices]\ncount = 4\nemulate = \"f=1ms,i=1ms,w=1ms\"\n"
                "[parallel]\npipeline = \"auto\"\ndata = \"auto\"\ntensor = \"auto\"\n"
                "schedule = \"auto\"\nzero = \"auto\"\nrecompute = \"auto\""),
      here);

  const Config& config = plan.choice().config;
  EXPECT_FALSE(needs_plan(config));
  EXPECT_EQ(*config.parallel.pipeline * *config.parallel.tensor * *config.parallel.data, 4);
  EXPECT_NE(config.parallel.schedule, "auto");
  EXPECT_GT(plan.considered, 10);
}

/// Device 0 of this plan, to the byte.
std::int64_t planned(const Config& config) {
  return forecast(config, here).step.planned_on(0);
}

TEST(AutoPlan, SharesAndRecomputesAsMuchAsItTakesToFit) {
  const std::string given = "[parallel]\ndata = 2\n";
  const std::string open = given + "zero = \"auto\"\nrecompute = \"auto\"\n";
  const std::string devices = "[devices]\ncount = 2\n";
  // Where memory is short there is no copy for saving.
  const std::int64_t plain = planned(config_of(given + devices + "memory = 1"));
  std::int64_t least = plain;
  const Config tight = config_of(open + devices + "memory = 1");
  for (const plan::Layout& one : savings_of(tight))
    least = std::min(least, planned(with_layout(tight, one)));
  ASSERT_LT(least, plain);
  const auto with = [&](std::int64_t bytes) {
    return config_of(open + devices + "memory = " + std::to_string(bytes));
  };

  EXPECT_FALSE(plan_run(with(plain), here).fitting.empty());
  for (const std::int64_t budget : {plain - 1, (plain + least) / 2, least}) {
    const AutoPlan plan = plan_run(with(budget), here);
    ASSERT_FALSE(plan.fitting.empty()) << budget;
    EXPECT_GT(degree_of_saving(plan.choice().predicted.layout), 0);
    EXPECT_EQ(plan.choice().predicted.memory_bytes, planned(plan.choice().config));
    EXPECT_LE(plan.choice().predicted.memory_bytes, budget);
  }
  EXPECT_TRUE(plan_run(with(least - 1), here).fitting.empty());
}

TEST(AutoPlan, CountsTheCopyForSavingAsTheRunDoes) {
  const std::string open = "[parallel]\npipeline = \"auto\"\n[devices]\ncount = 1\n";
  const std::int64_t bare = planned(config_of(open + "memory = 1"));
  const auto needed = [&](const std::string& memory) {
    const PlannedRun choice = plan_run(config_of(open + memory), here).choice();
    EXPECT_EQ(choice.predicted.memory_bytes, planned(choice.config)) << memory;
    return choice.predicted.memory_bytes;
  };

  EXPECT_GT(needed(""), bare);
  EXPECT_EQ(needed("memory = " + std::to_string(bare)), bare) << "no room for the copy";
  EXPECT_GT(needed("memory = " + std::to_string(2 * bare)), bare);
}

TEST(AutoPlan, RecomputesNothingWhereMemoryIsNoMatter) {
  const AutoPlan plan =
      plan_run(config_of("[parallel]\ndata = \"auto\"\npipeline = \"auto\"\nrecompute = \"auto\"\n"
                         "[devices]\ncount = 2\n"),
               here);
  EXPECT_EQ(recompute_name(plan.choice().predicted.layout), "none");
}

// Of an emulated model the work is the same however it is divided: four replicas of equal devices
// have no bubble, unequal devices want a pipeline cut by their speed.
TEST(AutoPlan, GivesUnequalDevicesAPipelineWhereTimesBelongToLayers) {
  const std::string open =
      "microbatch = \"auto\"\n[parallel]\npipeline = \"auto\"\ndata = \"auto\"\n"
      "schedule = \"auto\"\n[devices]\ncount = 4\nemulate = \"f=1ms,i=1ms,w=1ms,per=layer\"\n";
  EXPECT_EQ(plan_run(config_of(open), here).choice().config.parallel.data, 4);
  const AutoPlan plan = plan_run(config_of(open + "speed = [1, 1, 2, 4]"), here);
  EXPECT_EQ(plan.choice().config.parallel.pipeline, 4);
  // 8 layers x 8 sequences x 3 ms of work on devices of speed 8 in all.
  EXPECT_GE(plan.choice().predicted.step_seconds, 0.024);
  EXPECT_LT(plan.choice().predicted.step_seconds, 0.040);
}

TEST(AutoPlan, FindsTheLayoutThatFitsAndSaysWhatIsMissingOtherwise) {
  const std::string open =
      "microbatch = \"auto\"\n[parallel]\npipeline = \"auto\"\ndata = \"auto\"\n"
      "schedule = \"auto\"\n";
  // The whole model does not fit on one of these, a quarter of it does.
  const AutoPlan four =
      plan_run(config_of(open + "[devices]\ncount = 4\nmemory = \"1.8MiB\""), here);
  ASSERT_FALSE(four.fitting.empty());
  const Forecast run = forecast(four.choice().config, here);
  EXPECT_TRUE(run.fits);
  EXPECT_GT(*four.choice().config.parallel.pipeline, 1);

  const AutoPlan one =
      plan_run(config_of(open + "[devices]\ncount = 1\nmemory = \"1.8MiB\""), here);
  EXPECT_TRUE(one.fitting.empty());
  try {
    require_fit(one);
    FAIL() << "it fits";
  } catch (const DoesNotFit& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("which has 1.80 MiB"), std::string::npos) << text;
  }
}

// Their times are known, and differ from what the FLOPs of equal stages would say.
TEST(AutoSchedule, OfEmulatedDevicesIsMadeForTheirTimes) {
  const auto seconds = [](const std::string& schedule) {
    return forecast(config_of("[devices]\ncount = 4\nspeed = [1, 1, 2, 4]\n"
                              "emulate = \"f=4ms,i=2ms,w=1ms\"\n[parallel]\npipeline = 4\n"
                              "partition = [2, 2, 2, 2]\nschedule = \"" +
                              schedule + "\""),
                    here)
        .predicted.summary.makespan;
  };
  const double found = seconds("auto");
  for (const char* schedule : {"1f1b", "zb-h1", "zb-h2"}) EXPECT_LE(found, seconds(schedule));
}

}  // namespace
}  // namespace cleave::train
