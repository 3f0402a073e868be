// How good `auto` is: against the named schedules, and against the exact optimum.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>

#include "plan/order/oracle/exact.h"
#include "plan/order/random_pipeline.h"
#include <gtest/gtest.h>

#include "cleave/schedule/passes.h"

namespace cleave::plan {
namespace {

using testing::RandomPipeline;

constexpr double kRounding = 1e-9;  // sums of the same times in another order

// A sixth of the cases takes ten seconds; `make test-all` walks all.
int share_of(int cases) {
  return std::getenv("CLEAVE_ALL_CASES") == nullptr ? cases / 6 : cases;
}

oracle::Pipeline as_numbers(const RandomPipeline& pipeline) {
  const schedule::Program& layout = pipeline.layout;
  oracle::Pipeline numbers{.devices = layout.devices,
                           .microbatches = layout.microbatches,
                           .device_of = {},
                           .seconds = {},
                           .delay = {},
                           .activation = {},
                           .limit = std::vector<double>(layout.devices, pipeline.limit)};
  for (int s = 0; s < layout.stages; ++s) {
    const StageCosts& stage = pipeline.costs.stages[s];
    numbers.device_of.push_back(layout.placement[s][0]);
    numbers.seconds.push_back({stage.forward, stage.input, stage.weight});
    numbers.activation.push_back(static_cast<double>(layout.devices) / layout.stages);
    if (s + 1 < layout.stages)
      numbers.delay.push_back(
          layout.placement[s] == layout.placement[s + 1] ? 0 : pipeline.costs.edges[s].latency);
  }
  return numbers;
}

TEST(ExactOracle, FindsTheOptimumFromALooseBound) {
  const oracle::Pipeline chain{.devices = 2,
                               .microbatches = 1,
                               .device_of = {0, 1},
                               .seconds = {{1, 2, 3}, {4, 5, 6}},
                               .delay = {0.5},
                               .activation = {1, 1},
                               .limit = {1, 1}};
  const auto exact = oracle::least_makespan(chain, 1000, 1000);
  EXPECT_EQ(exact.answer, oracle::Answer::Better);
  // F 1, message 0.5, F 4, I 5, then W 6 beside the way back of 0.5 + 2 + 3.
  EXPECT_DOUBLE_EQ(exact.makespan, 16.5);
}

// Every order in which F, I and W of one stage follow each other.
void for_each_list(int microbatches, const auto& use) {
  constexpr std::array<schedule::Op, 3> kOps = {schedule::Op::Forward, schedule::Op::BackwardInput,
                                                schedule::Op::BackwardWeight};
  std::array<int, 3> count = {0, 0, 0};
  std::vector<schedule::Instruction> list;
  const auto extend = [&](const auto& self) -> void {
    if (count[2] == microbatches) use(list);
    for (int pass = 0; pass < 3; ++pass) {
      if (count[pass] == (pass == 0 ? microbatches : count[pass - 1])) continue;
      list.push_back({.op = kOps[pass], .microbatch = count[pass]++});
      self(self);
      --count[pass];
      list.pop_back();
    }
  };
  extend(extend);
}

// The least makespan over all pairs of lists for two devices.
double try_everything(const RandomPipeline& pipeline) {
  schedule::Program program = pipeline.layout;
  double least = std::numeric_limits<double>::infinity();
  const auto put = [&](int device, std::vector<schedule::Instruction> list) {
    for (auto& instruction : list) instruction.stage = device;
    program.lists[device] = std::move(list);
  };
  for_each_list(program.microbatches, [&](const auto& first) {
    put(0, first);
    for_each_list(program.microbatches, [&](const auto& second) {
      put(1, second);
      if (!testing::fits(pipeline, program)) return;
      try {
        least = std::min(least, testing::outcome(pipeline, program).makespan);
      } catch (const UserError&) {  // this pair waits for itself
      }
    });
  });
  return least;
}

TEST(ExactOracle, AgreesWithTryingEverything) {
  int compared = 0;
  for (unsigned seed = 1; compared < 12; ++seed) {
    const RandomPipeline pipeline =
        testing::random_pipeline(seed, {.most_devices = 2, .most_microbatches = 3});
    if (pipeline.layout.stages > 2) continue;
    ++compared;

    const auto exact = oracle::least_makespan(as_numbers(pipeline), 1e9, 1'000'000);

    EXPECT_NEAR(exact.makespan, try_everything(pipeline), kRounding) << "case " << seed;
  }
}

// No order is both as fast as the fastest named schedule and as cheap as the cheapest.
bool excludes_each_other(const RandomPipeline& pipeline, const Summary& named) {
  oracle::Pipeline numbers = as_numbers(pipeline);
  numbers.most_cost = named.cost;
  return oracle::least_makespan(numbers, named.makespan * (1 + kRounding), 1'000'000).answer ==
         oracle::Answer::NothingBetter;
}

bool is_optimal(const RandomPipeline& pipeline, double makespan) {
  return oracle::least_makespan(as_numbers(pipeline), makespan, 20'000).answer ==
         oracle::Answer::NothingBetter;
}

TEST(AutoQuality, IsNeverWorseThanTheBestNamedScheduleThatFits) {
  int uneven = 0;
  int beaten = 0;
  int optimal = 0;
  int exclusive = 0;
  std::vector<double> gains;
  const int cases = share_of(1000);
  for (unsigned seed = 1; std::ssize(gains) < cases; ++seed) {
    const RandomPipeline pipeline = testing::random_pipeline(seed, {});
    const auto named = testing::best_named(pipeline);
    if (!named) continue;

    const Summary found = testing::outcome(
        pipeline, auto_schedule(pipeline.layout, pipeline.costs, pipeline.limits()));

    EXPECT_LE(found.makespan, named->makespan * (1 + kRounding)) << "case " << seed;
    if (found.cost > named->cost * (1 + kRounding)) {
      EXPECT_TRUE(excludes_each_other(pipeline, *named)) << "case " << seed;
      ++exclusive;
    }
    gains.push_back(1 - found.makespan / named->makespan);
    if (pipeline.spread < 2) continue;
    ++uneven;
    if (gains.back() > kRounding)
      ++beaten;
    else
      optimal += is_optimal(pipeline, found.makespan);
  }
  EXPECT_GE(beaten + optimal, uneven * 8 / 10) << "of " << uneven << " uneven cases";
  std::ranges::sort(gains);
  std::printf(
      "%d cases: makespan below the best named by %.1f %% in the median, %.1f %% in the mean, %.1f "
      "%% at most; cost above the least named in %d, where no order has both\n"
      "%d uneven cases: %d beaten, %d others proven optimal\n",
      cases, 100 * gains[cases / 2], 100 * std::reduce(gains.begin(), gains.end()) / cases,
      100 * gains.back(), exclusive, uneven, beaten, optimal);
}

// Five stages, each fed by the one before and some by earlier ones, of which the first are frozen.
schedule::PipelineShape random_frozen_graph(unsigned seed) {
  std::mt19937 bits(seed);
  schedule::PipelineShape shape{.devices = 5, .microbatches = 24, .chunks = 1};
  for (int to = 1; to < shape.devices; ++to)
    for (int from = 0; from < to; ++from)
      if (from + 1 == to || bits() % 3 == 0) shape.graph.push_back({.from = from, .to = to});
  const int frozen = 1 + static_cast<int>(bits() % 3);
  for (int stage = 0; stage < frozen; ++stage) shape.frozen.push_back(stage);
  return shape;
}

Summary with_messages(const schedule::Program& compute) {
  const schedule::Program lowered = schedule::lower(compute, {});
  const Costs costs = uniform_costs(lowered, {});
  return summarise(lowered, simulate(lowered, costs, {.record = Record::DevicesOnly}));
}

// A stage that never hears of its messages may have few of them on their way, and waits.
TEST(AutoQuality, KnowsHowFarFrozenStagesMayRunAhead) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    const schedule::PipelineShape shape = random_frozen_graph(seed);
    const Summary found = with_messages(plan::generate("auto", shape));
    for (const std::string_view name : {"gpipe", "1f1b", "zb-h1"}) {
      const Summary named = with_messages(schedule::generate(name, shape));
      EXPECT_LE(found.makespan, named.makespan * (1 + kRounding)) << name << ", graph " << seed;
    }
  }
}

TEST(AutoQuality, IsWithinTwoPercentOfTheOptimum) {
  int solved = 0;
  int binding = 0;
  int optimal = 0;
  double worst = 1;
  const int cases = share_of(300);
  for (unsigned seed = 5000; solved < cases || 2 * binding < cases; ++seed) {
    const RandomPipeline pipeline = testing::random_pipeline(seed, {.most_devices = 4,
                                                                    .most_microbatches = 5,
                                                                    .least_devices = 3,
                                                                    .least_microbatches = 4,
                                                                    .tight = seed % 4 != 0});
    const Summary found = testing::outcome(
        pipeline, auto_schedule(pipeline.layout, pipeline.costs, pipeline.limits()));
    const auto exact = oracle::least_makespan(as_numbers(pipeline), found.makespan, 30'000);
    if (exact.answer == oracle::Answer::GaveUp) continue;
    ++solved;
    RandomPipeline free = pipeline;
    free.limit = std::numeric_limits<double>::infinity();
    binding += oracle::least_makespan(as_numbers(free), exact.makespan, 30'000).answer ==
               oracle::Answer::Better;
    const double ratio = found.makespan / exact.makespan;
    EXPECT_LE(ratio, 1.02) << "case " << seed << ": " << pipeline.layout.devices << " x "
                           << pipeline.layout.microbatches << ", limit " << pipeline.limit;
    worst = std::max(worst, ratio);
    optimal += ratio <= 1 + kRounding;
  }
  std::printf("%d cases solved, %d with a limit that binds: %d optimal, worst %.2f %% above\n",
              solved, binding, optimal, 100 * (worst - 1));
}

}  // namespace
}  // namespace cleave::plan
