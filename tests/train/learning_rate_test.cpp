#include "cleave/train/step/learning_rate.h"

#include <gtest/gtest.h>

namespace cleave::train {
namespace {

TrainConfig config(std::int64_t steps, std::int64_t warmup) {
  TrainConfig train;
  train.steps = steps;
  train.warmup = warmup;
  train.lr = 1.0;
  train.min_lr = 0.2;
  return train;
}

TEST(LearningRate, RisesInAStraightLineToTheLastStepOfWarmup) {
  const TrainConfig train = config(14, 4);
  EXPECT_DOUBLE_EQ(learning_rate(train, 0), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(train, 1), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(train, 3), 1.0);
}

TEST(LearningRate, FallsAsHalfACosineToTheMinimumAtTheLastStep) {
  const TrainConfig train = config(14, 4);
  EXPECT_DOUBLE_EQ(learning_rate(train, 8), 0.6);  // half way
  EXPECT_DOUBLE_EQ(learning_rate(train, 13), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(train, 100), 0.2);  // resumed past the end
  for (int step = 4; step < 14; ++step) {
    EXPECT_LT(learning_rate(train, step), learning_rate(train, step - 1)) << step;
  }
}

TEST(LearningRate, FollowsTheCurveThatTheScheduleNames) {
  TrainConfig train = config(14, 4);
  train.decay = 5;
  const auto rate = [&](const char* schedule, std::int64_t step) {
    train.schedule = schedule;
    return learning_rate(train, step);
  };
  for (const RateCurve& curve : rate_curves()) {
    EXPECT_DOUBLE_EQ(rate(curve.name.data(), 1), 0.5) << curve.name;
    EXPECT_DOUBLE_EQ(rate(curve.name.data(), 3), 1.0) << curve.name;
  }
  EXPECT_DOUBLE_EQ(rate("linear", 8), 0.6);
  EXPECT_DOUBLE_EQ(rate("linear", 13), 0.2);
  EXPECT_DOUBLE_EQ(rate("constant", 13), 1.0);
  EXPECT_DOUBLE_EQ(rate("wsd", 8), 1.0);  // five steps are left
  EXPECT_DOUBLE_EQ(rate("wsd", 9), 0.84);
  EXPECT_DOUBLE_EQ(rate("wsd", 13), 0.2);
  EXPECT_DOUBLE_EQ(rate("wsd", 20), 0.2);  // resumed past the end
}

TEST(LearningRate, FollowsTheListOfRates) {
  TrainConfig train = config(14, 4);
  train.rates = {{2, 0.5}, {4, 1.5}, {8, 0.0}};
  EXPECT_DOUBLE_EQ(learning_rate(train, 0), 0.5);  // before the first
  EXPECT_DOUBLE_EQ(learning_rate(train, 1), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(train, 2), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(train, 3), 1.5);
  EXPECT_DOUBLE_EQ(learning_rate(train, 5), 0.75);
  EXPECT_DOUBLE_EQ(learning_rate(train, 7), 0.0);
  EXPECT_DOUBLE_EQ(learning_rate(train, 13), 0.0);
}

TEST(LearningRate, NeedsNoWarmupAndSurvivesRunsThatAreAllWarmup) {
  EXPECT_LT(learning_rate(config(10, 0), 0), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config(4, 4), 3), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config(4, 4), 4), 0.2);
}

}  // namespace
}  // namespace cleave::train
