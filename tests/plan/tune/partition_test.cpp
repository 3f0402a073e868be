#include "cleave/plan/tune/partition.h"

#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "cleave/plan/tune/partition_search.h"

namespace cleave::plan {
namespace {

using Sizes = std::vector<std::int64_t>;

/// Every way to cut `count` segments into `stages` non-empty groups.
void for_each_cut(std::int64_t count, int stages, const std::function<void(const Sizes&)>& visit) {
  Sizes sizes;
  const std::function<void(std::int64_t)> cut = [&](std::int64_t left) {
    if (static_cast<int>(sizes.size()) == stages - 1) {
      sizes.push_back(left);
      visit(sizes);
      sizes.pop_back();
      return;
    }
    const std::int64_t others = stages - 1 - std::ssize(sizes);
    for (std::int64_t size = 1; size + others <= left; ++size) {
      sizes.push_back(size);
      cut(left - size);
      sizes.pop_back();
    }
  };
  cut(count);
}

bool fits(const PartitionProblem& problem, const Sizes& sizes) {
  const std::vector<std::int64_t> bytes = partition_bytes(problem, sizes);
  for (std::size_t d = 0; d < bytes.size(); ++d)
    if (bytes[d] > problem.devices[d].memory) return false;
  return true;
}

double exhaustive_optimum(const PartitionProblem& problem, int stages) {
  double best = std::numeric_limits<double>::infinity();
  for_each_cut(std::ssize(problem.segments), stages, [&](const Sizes& sizes) {
    if (fits(problem, sizes)) best = std::min(best, partition_seconds(problem, sizes));
  });
  return best;
}

/// An embedding, blocks and a head, as a GPT has them.
std::vector<SegmentWork> gpt_like(int blocks, double head) {
  std::vector<SegmentWork> segments;
  segments.push_back({{.forward = 0.2, .input = 0.1, .weight = 0.1}, 60, 1});
  for (int i = 0; i < blocks; ++i)
    segments.push_back({{.forward = 1, .input = 1.1, .weight = 0.9}, 20, 5});
  segments.push_back({{.forward = head, .input = head, .weight = head}, 60, 3});
  return segments;
}

TEST(Balance, MakesTheMostExpensiveGroupAsCheapAsPossible) {
  const std::vector<double> costs = {1, 5, 2, 2, 2, 5};
  EXPECT_EQ(balance(costs, 3), (Sizes{2, 3, 1}));
}

// Speeds 1 : 1 : 2 : 4 and unequal memory, which binds for some seeds and not for others.
TEST(PartitionSearch, IsWithinThreePercentOfTheExhaustiveOptimumOnUnequalDevices) {
  int bound = 0;
  for (unsigned seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed);
    const auto between = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    PartitionProblem problem{.segments = gpt_like(between(8, 12), 0.5 * between(1, 5))};
    problem.microbatches = between(4, 12);
    problem.schedule = seed % 3 == 2 ? "zb-h1" : "1f1b";
    for (const double speed : {1, 1, 2, 4}) problem.devices.push_back({speed, between(150, 500)});
    const double best = exhaustive_optimum(problem, 4);

    const auto choice = choose_partition(problem);

    ASSERT_EQ(choice.has_value(), std::isfinite(best)) << seed;
    if (!choice) continue;
    EXPECT_LE(choice->seconds, 1.03 * best) << seed;
    EXPECT_TRUE(fits(problem, choice->sizes)) << seed;
    PartitionProblem unbounded = problem;
    for (PipelineDevice& device : unbounded.devices) device.memory = 1 << 30;
    bound += choose_partition(unbounded)->seconds < choice->seconds - 1e-9;
  }
  EXPECT_GE(bound, 3) << "memory never mattered";
}

TEST(PartitionSearch, ServesSchedulesWithSeveralStagesPerDevice) {
  PartitionProblem problem{.segments = gpt_like(10, 2)};
  problem.devices.assign(2, {});
  problem.microbatches = 6;
  for (const char* schedule : {"interleaved", "zbv"}) {
    problem.schedule = schedule;
    const auto choice = choose_partition(problem);
    ASSERT_TRUE(choice.has_value());
    EXPECT_LE(choice->seconds, 1.03 * exhaustive_optimum(problem, 4)) << schedule;
  }
}

// Two towers that meet in the last segment; and a tower whose layers feed others far behind them.
TEST(PartitionSearch, IsWithinThreePercentOfTheExhaustiveOptimumOnGraphs) {
  const std::vector<std::vector<PartEdge>> graphs = {
      {{0, 1}, {1, 2}, {2, 3}, {3, 9}, {4, 5}, {5, 6}, {6, 7}, {7, 8}, {8, 9}},
      {{0, 1}, {1, 2}, {1, 5}, {2, 3}, {2, 6}, {3, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 8}, {8, 9}}};
  for (const std::vector<PartEdge>& graph : graphs) {
    for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
      for (const std::vector<double>& speeds : {std::vector<double>{1, 1, 1}, {1, 2, 4}}) {
        PartitionProblem problem{.segments = gpt_like(8, 2), .schedule = schedule, .graph = graph};
        for (const double speed : speeds) problem.devices.push_back({speed});
        problem.microbatches = 6;
        const auto choice = choose_partition(problem);
        ASSERT_TRUE(choice.has_value());
        EXPECT_LE(choice->seconds, 1.03 * exhaustive_optimum(problem, 3)) << schedule;
      }
    }
  }
}

/// Blocks of an encoder that does not learn, a projector that does, and blocks of a language model
/// that only pass gradients on: F, I and W of a block take 1 where they are asked for.
PartitionProblem frozen_encoder(int encoder, int language) {
  using schedule::GradientKind;
  PartitionProblem problem{.segments = {{.gradients = GradientKind::None}}};
  for (int k = 0; k < encoder; ++k)
    problem.segments.push_back({.time = {.forward = 1}, .gradients = GradientKind::None});
  for (int k = 0; k < language; ++k)
    problem.segments.push_back(
        {.time = {.forward = 1, .input = 1},
         .gradients = k == 0 ? GradientKind::Full : GradientKind::InputOnly});
  problem.segments.push_back({.gradients = GradientKind::InputOnly});
  problem.devices.assign(3, {});
  return problem;
}

// Twelve blocks of an encoder and twenty-four of a language model, both frozen: 612 in equal
// numbers of blocks, 520 where four blocks of the language model go with the encoder.
TEST(PartitionSearch, KeepsWhatDoesNotLearnInMind) {
  PartitionProblem problem = frozen_encoder(12, 24);
  problem.microbatches = 24;
  EXPECT_EQ(partition_seconds(problem, {13, 12, 13}), 612);
  EXPECT_EQ(partition_seconds(problem, {17, 10, 11}), 520);

  const auto choice = choose_partition(problem);

  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->sizes, (Sizes{17, 10, 11}));
  EXPECT_EQ(choice->seconds, 520);
}

// A stage without backward passes keeps nothing alive, and waits for no gradient.
TEST(PartitionSearch, CountsNothingAliveWhereNoGradientIsWanted) {
  PartitionProblem problem = frozen_encoder(4, 8);
  problem.microbatches = 8;
  for (SegmentWork& segment : problem.segments) segment.kept = 10;
  const Sizes cut = {5, 4, 5};
  EXPECT_EQ(partition_bytes(problem, cut), (Sizes{50, 80, 50}));

  for (SegmentWork& segment : problem.segments) segment.gradients = schedule::GradientKind::Full;
  EXPECT_EQ(partition_bytes(problem, cut), (Sizes{150, 80, 50}));
}

TEST(PartitionSearch, IsWithinThreePercentOfTheExhaustiveOptimumOnGraphsWithFrozenParts) {
  // The encoder's second and third block also feed the language model's first and second.
  const std::vector<PartEdge> graph = {{0, 1}, {1, 2}, {2, 3}, {2, 5}, {3, 4}, {3, 6},
                                       {4, 5}, {5, 6}, {6, 7}, {7, 8}, {8, 9}};
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    for (const std::vector<double>& speeds : {std::vector<double>{1, 1, 1}, {1, 2, 4}, {4, 1, 2}}) {
      PartitionProblem problem = frozen_encoder(4, 4);
      problem.schedule = schedule;
      problem.graph = graph;
      problem.microbatches = 8;
      for (std::size_t d = 0; d < speeds.size(); ++d) problem.devices[d].speed = speeds[d];
      const auto choice = choose_partition(problem);
      ASSERT_TRUE(choice.has_value());
      EXPECT_LE(choice->seconds, 1.03 * exhaustive_optimum(problem, 3)) << schedule;
    }
  }
}

TEST(PartitionSearch, LetsTowersRunBesideEachOther) {
  PartitionProblem problem{.segments = gpt_like(6, 1), .schedule = "gpipe"};
  problem.devices.assign(3, {});
  problem.microbatches = 4;
  const Sizes cut = {3, 3, 2};
  const double in_a_row = partition_seconds(problem, cut);
  problem.graph = {{0, 1}, {1, 2}, {2, 6}, {3, 4}, {4, 5}, {5, 6}, {6, 7}};

  EXPECT_EQ(stage_edges(problem.graph, cut), (std::vector<PartEdge>{{0, 2}, {1, 2}}));
  EXPECT_EQ(stage_edges(problem.graph, {3, 4, 1}), (std::vector<PartEdge>{}));
  EXPECT_LT(partition_seconds(problem, cut), in_a_row);
}

TEST(PartitionSearch, GivesSlowLinksTheirDue) {
  PartitionProblem problem{.segments = gpt_like(6, 1)};
  problem.devices.assign(2, {});
  problem.microbatches = 4;
  const double fast = choose_partition(problem)->seconds;
  problem.links.assign(1, {.latency = 5});
  EXPECT_GT(choose_partition(problem)->seconds, fast + 5);
}

TEST(PartitionSearch, SaysSoWhenNoCutFits) {
  PartitionProblem problem{.segments = gpt_like(6, 1)};
  problem.devices.assign(2, {.speed = 1, .memory = 70});
  EXPECT_FALSE(choose_partition(problem).has_value());
}

}  // namespace
}  // namespace cleave::plan
