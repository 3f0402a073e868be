#include "cleave/plan/order/auto_schedule.h"

#include "plan/order/random_pipeline.h"
#include <gtest/gtest.h>

#include "cleave/schedule/verifier.h"

namespace cleave::plan {
namespace {

using schedule::Program;

TEST(AutoSchedule, IsSoundAndKeepsTheLimit) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const auto pipeline =
        testing::random_pipeline(seed, {.most_devices = 4, .most_microbatches = 5});

    const Program program = auto_schedule(pipeline.layout, pipeline.costs, pipeline.limits());

    EXPECT_TRUE(schedule::verify(program, schedule::Level::Compute).empty()) << "case " << seed;
    EXPECT_TRUE(testing::fits(pipeline, program)) << "case " << seed;
    EXPECT_EQ(program.placement, pipeline.layout.placement);
  }
}

TEST(AutoSchedule, IsTheSameEveryTime) {
  const auto pipeline = testing::random_pipeline(3, {.most_devices = 4, .most_microbatches = 6});
  EXPECT_EQ(auto_schedule(pipeline.layout, pipeline.costs, pipeline.limits()),
            auto_schedule(pipeline.layout, pipeline.costs, pipeline.limits()));
}

TEST(AutoSchedule, LeavesNoBubbleWhereMemoryAllows) {
  const Program program = generate("auto", {.devices = 4, .microbatches = 12});
  const Costs costs = uniform_costs(program, {});
  EXPECT_EQ(program.schedule, "auto");
  EXPECT_NEAR(summarise(program, simulate(program, costs)).bubble_rate, 0, 1e-12);
}

TEST(AutoSchedule, TakesTheBetterPlacementOfTwoChunks) {
  const Program program =
      generate("auto", {.devices = 3, .microbatches = 6, .chunks = 2}, {.limit = 3});
  const Summary found = summarise(program, simulate(program, uniform_costs(program, {})));
  for (const char* name : {"interleaved", "zbv", "v-half", "v-min"}) {
    const Program named = schedule::generate(name, {.devices = 3, .microbatches = 6});
    const Summary summary = summarise(named, simulate(named, uniform_costs(named, {})));
    if (summary.devices[0].peak_activations > 3) continue;
    EXPECT_LE(found.makespan, summary.makespan + 1e-9) << name;
  }
}

TEST(AutoSchedule, RefusesALimitThatHoldsNoMicrobatch) {
  const Program layout = schedule::generate("zbv", {.devices = 2, .microbatches = 2});
  try {
    auto_schedule(layout, uniform_costs(layout, {}), {.devices = {1, 0.5}, .stages = {}});
    FAIL() << "half a microbatch was accepted";
  } catch (const DoesNotFit& error) {
    EXPECT_STREQ(error.what(),
                 "device 1 may keep 0.5 microbatches alive, but one counts 1; raise the memory "
                 "limit");
  }
}

TEST(AutoSchedule, RefusesMoreThanItCanOrder) {
  const Program layout = schedule::generate("1f1b", {.devices = 2, .microbatches = 50'001});
  try {
    auto_schedule(layout, uniform_costs(layout, {}));
    FAIL() << "a search without end was begun";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "2 stages x 50001 microbatches are more than the 100000 forwards that auto can "
                 "order; take a named schedule");
  }
}

TEST(Generate, HandsNamedSchedulesOn) {
  EXPECT_EQ(generate("zbv", {.devices = 2, .microbatches = 3}),
            schedule::generate("zbv", {.devices = 2, .microbatches = 3}));
  EXPECT_THROW(generate("auto", {.devices = 0, .microbatches = 3}), UserError);
  EXPECT_EQ(schedule_names().back(), "auto");
}

}  // namespace
}  // namespace cleave::plan
