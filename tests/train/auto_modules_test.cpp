// "auto" where a tower may have devices, and more or fewer replicas, of its own. Emulated devices
// take what their config says, so that every plan can be told by simulation alone.

#include <array>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cleave/train/tune/auto_plan.h"
#include "cleave/train/tune/auto_space.h"
#include "cleave/train/tune/run_oracle.h"

namespace cleave::train {
namespace {

comm::LocalLauncher launcher_of_modules;

/// A tower of so many layers before a language model of so many.
Config config_of_modules(int vision, int language, int devices) {
  return parse_config(fmt::format(R"(
[model]
preset = "vlm-tiny"
layers = {}
[model.vision]
layers = {}
[train]
batch = 8
microbatch = 1
sequence = 48
[numerics]
data_shards = 8
[devices]
count = {}
emulate = "f=4ms,i=5ms,w=3ms,per=layer"
[parallel]
pipeline = "auto"
data = "auto"
schedule = "auto"
)",
                                  language, vision, devices),
                      "test.toml");
}

/// Of every way to give the tower `fold` times the replicas of the language model, or the reverse.
double best_apart(const Config& config) {
  RunOracle oracle(launcher_of_modules, {});
  double best = std::numeric_limits<double>::infinity();
  for (const std::int64_t tower : {1, 2, 4, 8}) {
    for (const std::int64_t data : {1, 2, 4, 8}) {
      for (std::int64_t pipeline = 2; pipeline <= config.devices.count; ++pipeline) {
        for (std::int64_t stages = 1; stages < pipeline; ++stages) {
          Config one = config;
          ParallelConfig& p = one.parallel;
          p.placement = Placement::Own;
          p.pipeline = pipeline;
          p.vision_pipeline = stages;
          p.vision_data = tower;
          p.data = data;
          p.zero = 0;
          const bool apart = tower != data && p.devices() == config.devices.count;
          if (!apart || stages > config.model.vision.layers ||
              pipeline - stages > config.model.layers)
            continue;
          for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
            p.schedule = schedule;
            best = std::min(best, oracle.weighed(one).step_seconds);
          }
        }
      }
    }
  }
  return best;
}

TEST(AutoModules, GivesATowerReplicasOfItsOwnWhereThatIsFastest) {
  Config config = config_of_modules(9, 2, 3);
  config.parallel.schedule = "1f1b";
  const AutoPlan plan = plan_run(config, launcher_of_modules);
  const ParallelConfig& chosen = plan.choice().config.parallel;

  EXPECT_EQ(chosen.placement, Placement::Own);
  EXPECT_EQ(chosen.vision_data, 2);
  EXPECT_EQ(chosen.data, 1);
  EXPECT_EQ(chosen.pipeline, 2);
  EXPECT_NE(describe(plan.choice().config).find("encoder pipeline 1 x data 2"), std::string::npos);
}

TEST(AutoModules, IsNeverSlowerThanTheBestOfModulesApart) {
  for (const auto& [vision, language, devices] :
       {std::array{5, 2, 3}, {3, 4, 5}, {7, 2, 4}, {3, 6, 8}, {4, 3, 6}}) {
    SCOPED_TRACE(fmt::format("{} + {} layers on {} devices", vision, language, devices));
    const Config config = config_of_modules(vision, language, devices);
    const AutoPlan plan = plan_run(config, launcher_of_modules);

    EXPECT_LE(plan.choice().predicted.step_seconds, 1.0101 * best_apart(config))
        << describe(plan.choice().config);
  }
}

TEST(AutoModules, KeepsReplicasEqualWhereALayoutIsGivenOrDevicesMayBeLost) {
  const auto apart = [](const Config& config) {
    return plan::divisions_apart(space_of(config)).size();
  };
  Config given = config_of_modules(4, 2, 4), served = given;
  EXPECT_GT(apart(given), 0u);
  given.parallel.data = 1;
  served.devices.transport = Transport::Tcp;
  served.train.elastic = true;

  EXPECT_EQ(apart(given), 0u);
  EXPECT_EQ(apart(served), 0u);
}

}  // namespace
}  // namespace cleave::train
