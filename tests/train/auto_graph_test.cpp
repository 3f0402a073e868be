// "auto" for models whose parts do not follow each other in a row: two towers, a tower that feeds
// several layers, long skips. Emulated devices take what their config says, so that every plan can
// be told by simulation alone.

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cleave/train/step/emulation.h"
#include "cleave/train/step/trainer.h"
#include "cleave/train/tune/auto_plan.h"
#include "cleave/train/tune/auto_space.h"
#include "cleave/train/tune/run_oracle.h"

namespace cleave::train {
namespace {

comm::LocalLauncher launcher_of_graphs;

Config config_of_graph(const std::string& preset, const std::string& speed) {
  const bool reads_tokens = preset != "unet-tiny";
  return parse_config(fmt::format(R"(
[model]
preset = "{}"
[train]
batch = 8
microbatch = 1
{}
[devices]
count = 3
speed = {}
emulate = "f=4ms,i=5ms,w=3ms,per=layer"
[parallel]
pipeline = 3
)",
                                  preset, reads_tokens ? "sequence = 48" : "", speed),
                      "test.toml");
}

double best_of_all_cuts(Config config, const std::vector<std::string>& schedules) {
  RunOracle oracle(launcher_of_graphs, {});
  config.parallel.zero = 0;
  double best = std::numeric_limits<double>::infinity();
  const std::int64_t blocks = config.model.blocks();
  for (const std::string& schedule : schedules) {
    config.parallel.schedule = schedule;
    for (std::int64_t a = 0; a <= blocks; ++a) {
      for (std::int64_t b = 1; a + b <= blocks; ++b) {
        config.parallel.partition = {a, b, blocks - a - b};
        best = std::min(best, oracle.weighed(config).step_seconds);
      }
    }
  }
  return best;
}

/// What "auto" promises for the config, and what the best of all cuts under `schedules` takes.
void expect_within_three_percent(Config config, const std::vector<std::string>& schedules) {
  config.parallel.zero.reset();  // one replica has nothing to share, but the planner is asked
  const AutoPlan plan = plan_run(config, launcher_of_graphs);
  EXPECT_LE(plan.choice().predicted.step_seconds, 1.03 * best_of_all_cuts(config, schedules))
      << describe(plan.choice().config);
}

TEST(AutoGraph, IsWithinThreePercentOfTheBestCutOfTwoTowers) {
  for (const char* preset : {"clip-tiny", "siglip-tiny"}) {
    for (const char* speed : {"[1, 1, 1]", "[1, 2, 4]", "[3, 1, 1]"}) {
      for (const std::vector<std::string>& trained : {std::vector<std::string>{}, {"text_model"}}) {
        SCOPED_TRACE(fmt::format("{} {} {}", preset, speed, trained.size()));
        Config config = config_of_graph(preset, speed);
        config.trained = trained;
        EXPECT_EQ(config.parallel.schedule, "gpipe");
        expect_within_three_percent(config, {"gpipe"});
      }
    }
  }
}

TEST(AutoGraph, IsWithinThreePercentOfTheBestCutOfATowerThatFeedsSeveralLayers) {
  for (const char* speed : {"[1, 1, 1]", "[1, 2, 4]"}) {
    for (const std::vector<std::string>& trained :
         {std::vector<std::string>{}, {"projector"}, {"projector", "language"}}) {
      SCOPED_TRACE(fmt::format("{} {}", speed, trained.size()));
      Config config = config_of_graph("deepstack-tiny", speed);
      config.trained = trained;
      config.parallel.schedule = "auto";
      expect_within_three_percent(config, {"gpipe", "1f1b", "zb-h1"});
    }
  }
}

TEST(AutoGraph, IsWithinThreePercentOfTheBestCutOfLongSkips) {
  for (const char* speed : {"[1, 1, 1]", "[1, 2, 4]", "[3, 1, 1]"}) {
    SCOPED_TRACE(speed);
    Config config = config_of_graph("unet-tiny", speed);
    config.parallel.schedule = "auto";
    expect_within_three_percent(config, {"gpipe", "1f1b", "zb-h1"});
  }
}

// The tower keeps its weights, the projector learns, and gradients pass through the language model.
TEST(AutoGraph, TellsLayersThatDoNotLearnByThePassesThatTheyRun) {
  Config config = config_of_graph("deepstack-tiny", "[1, 1, 1]");
  config.trained = {"projector"};
  const Graph model = model_of(config);
  const std::vector<plan::StageCosts> segments = emulated_segments(config, model);

  ASSERT_EQ(segments.size(), model.segments.size());
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const SegmentSpec& segment = model.segments[s];
    EXPECT_EQ(segments[s].forward, segment.block ? 4e-3 : 0) << segment.name;
    EXPECT_EQ(segments[s].input, segment.block && segment.module == "language" ? 5e-3 : 0)
        << segment.name;
    EXPECT_EQ(segments[s].weight, 0) << segment.name;
  }
}

TEST(AutoGraph, LooksAtSchedulesForGraphsAlone) {
  const auto names = [](const Config& config) {
    std::vector<std::string> found;
    for (const plan::Layout& layout : plan::layouts(space_of(config)))
      if (std::ranges::count(found, layout.schedule) == 0) found.push_back(layout.schedule);
    std::ranges::sort(found);
    return found;
  };
  Config towers = config_of_graph("clip-tiny", "[1, 1, 1]");
  Config deep = config_of_graph("deepstack-tiny", "[1, 1, 1]");
  Config chain = config_of_graph("vlm-tiny", "[1, 1, 1]");
  for (Config* config : {&towers, &deep, &chain}) config->parallel.schedule = "auto";

  EXPECT_EQ(names(towers), (std::vector<std::string>{"gpipe"}));
  EXPECT_EQ(names(deep), (std::vector<std::string>{"1f1b", "gpipe", "zb-h1"}));
  EXPECT_GT(names(chain).size(), 6u);
  towers.parallel.pipeline = 1;
  towers.devices.count = 1;
  EXPECT_EQ(names(towers), (std::vector<std::string>{"gpipe"}));
}

}  // namespace
}  // namespace cleave::train
