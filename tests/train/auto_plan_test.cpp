#include "cleave/train/auto_plan.h"

#include <algorithm>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/train/forecast.h"

namespace cleave::train {
namespace {

constexpr const char* kModel = R"(
[model]
kind = "gpt"
layers = 8
hidden = 32
heads = 2
vocab = 64
context = 16
[train]
batch = 8
sequence = 16
)";

Config config_of(const std::string& rest) {
  return parse_config(kModel + rest, "test.toml");
}

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
  const AutoPlan plan = plan_run(config_of(devices + "schedule = \"auto\""), nullptr);
  const double chosen = forecast(plan.choice().config).predicted.summary.makespan;

  double best = std::numeric_limits<double>::infinity();
  for (const char* schedule : {"1f1b", "zb-h1"}) {
    Config config = config_of(devices + "schedule = \"" + schedule + "\"");
    for_each_partition(config.model.layers, [&](const std::vector<std::int64_t>& partition) {
      config.parallel.partition = partition;
      best = std::min(best, forecast(config).predicted.summary.makespan);
    });
  }

  EXPECT_LE(chosen, 1.05 * best);
  ASSERT_TRUE(plan.choice().config.parallel.partition.has_value());
}

TEST(AutoPlan, DecidesEverythingThatWasAuto) {
  const AutoPlan plan = plan_run(
      config_of("microbatch = \"auto\"\n[devices]\ncount = 4\nemulate = \"f=1ms,i=1ms,w=1ms\"\n"
                "[parallel]\npipeline = \"auto\"\ndata = \"auto\"\ntensor = \"auto\"\n"
                "schedule = \"auto\"\nzero = \"auto\"\nrecompute = \"auto\""),
      nullptr);

  const Config& config = plan.choice().config;
  EXPECT_FALSE(needs_plan(config));
  EXPECT_EQ(*config.parallel.pipeline * *config.parallel.tensor * *config.parallel.data, 4);
  EXPECT_NE(config.parallel.schedule, "auto");
  EXPECT_GT(plan.considered, 10);
}

TEST(AutoPlan, FindsTheLayoutThatFitsAndSaysWhatIsMissingOtherwise) {
  const std::string open =
      "microbatch = \"auto\"\n[parallel]\npipeline = \"auto\"\ndata = \"auto\"\n"
      "schedule = \"auto\"\n";
  // The whole model does not fit on one of these, a quarter of it does.
  const AutoPlan four =
      plan_run(config_of(open + "[devices]\ncount = 4\nmemory = \"1.8MiB\""), nullptr);
  ASSERT_FALSE(four.fitting.empty());
  const Forecast run = forecast(four.choice().config);
  EXPECT_TRUE(run.fits);
  EXPECT_GT(*four.choice().config.parallel.pipeline, 1);

  const AutoPlan one =
      plan_run(config_of(open + "[devices]\ncount = 1\nmemory = \"1.8MiB\""), nullptr);
  EXPECT_TRUE(one.fitting.empty());
  try {
    require_fit(one);
    FAIL() << "it fits";
  } catch (const DoesNotFit& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("on a device that has 1.80 MiB"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace cleave::train
