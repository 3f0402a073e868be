#include "cleave/ops/sample.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "cleave/base/check.h"

namespace cleave::ops {
namespace {

const std::vector<float> kLogits = {0.0f, std::log(2.0f), std::log(5.0f), std::log(2.0f)};

TEST(Sample, TakesTheLargestAtTemperatureZero) {
  EXPECT_EQ(sample(kLogits, {.temperature = 0}, 0.99f), 2);
  EXPECT_EQ(sample(std::vector<float>{1, 3, 3}, {.temperature = 0}, 0), 1);
}

// Weights 1 : 2 : 5 : 2, in the order of the tokens.
TEST(Sample, DividesTheUnitIntervalByProbability) {
  for (auto [uniform, token] :
       {std::pair{0.05f, 0}, {0.15f, 1}, {0.29f, 1}, {0.31f, 2}, {0.79f, 2}, {0.81f, 3}}) {
    EXPECT_EQ(sample(kLogits, {}, uniform), token) << uniform;
  }
}

TEST(Sample, TemperatureFlattens) {
  // At 1/2 the weights are 1 : 4 : 25 : 4 of 34.
  EXPECT_EQ(sample(kLogits, {.temperature = 0.5f}, 4.9f / 34), 1);
  EXPECT_EQ(sample(kLogits, {.temperature = 0.5f}, 5.1f / 34), 2);
}

// Of two equal logits the lower index ranks first: weights 2 : 5 for tokens 1 and 2.
TEST(Sample, TopKLeavesTheRestOut) {
  EXPECT_EQ(sample(kLogits, {.top_k = 2}, 0.28f), 1);
  EXPECT_EQ(sample(kLogits, {.top_k = 2}, 0.29f), 2);
  EXPECT_EQ(sample(kLogits, {.top_k = 2}, 0.999f), 2);
  EXPECT_EQ(sample(kLogits, {.top_k = 1}, 0.999f), 2);
}

// Weights 5 : 2 : 2 : 1 of 10, likeliest first: 0.5 needs one token, 0.51 two, 0.71 three.
TEST(Sample, TopPKeepsTheLikeliestThatMakeUpTheShare) {
  EXPECT_EQ(sample(kLogits, {.top_p = 0.499f}, 0.999f), 2);
  EXPECT_EQ(sample(kLogits, {.top_p = 0.6f}, 0.28f), 1);
  EXPECT_EQ(sample(kLogits, {.top_p = 0.6f}, 0.999f), 2);
  EXPECT_EQ(sample(kLogits, {.top_p = 0.8f}, 0.999f), 3);
}

TEST(Sample, MinPLeavesOutWhatIsUnlikelyBesideTheLikeliest) {
  EXPECT_EQ(sample(kLogits, {.min_p = 0.39f}, 0.0f), 1);
  EXPECT_EQ(sample(kLogits, {.min_p = 0.41f}, 0.0f), 2);
}

TEST(Sample, PenalisesWhatCameBefore) {
  const std::vector<float> logits = {-1, 2, 3};
  const std::vector<std::int32_t> before = {2, 2};

  EXPECT_EQ(sample(logits, {.temperature = 0, .repetition_penalty = 1.4f}, 0, before), 2);
  EXPECT_EQ(sample(logits, {.temperature = 0, .repetition_penalty = 1.6f}, 0, before), 1);
  // A negative logit is multiplied: -1 becomes -2, below -1.5.
  EXPECT_EQ(sample(std::vector<float>{-1.5f, -1}, {.temperature = 0, .repetition_penalty = 2}, 0,
                   std::vector<std::int32_t>{1}),
            0);
}

TEST(Sample, RefusesNoLogits) {
  EXPECT_THROW(sample({}, {}, 0), InternalError);
}

}  // namespace
}  // namespace cleave::ops
