#include "cleave/model/rope_scaling.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

namespace cleave::model {
namespace {

constexpr double kTheta = 10000;
constexpr std::int64_t kDims = 32;

RopeScaling llama3() {
  return {.kind = RopeScaling::Kind::Llama3,
          .factor = 8,
          .original_context = 1024,
          .low_freq_factor = 1,
          .high_freq_factor = 4};
}

RopeScaling yarn() {
  return {.kind = RopeScaling::Kind::Yarn,
          .factor = 4,
          .original_context = 512,
          .attention_factor = 1.1};
}

TEST(RopeScaling, LinearDividesEveryFrequency) {
  const auto plain = scaled_rope(kTheta, kDims, {}).frequencies;
  const auto slow =
      scaled_rope(kTheta, kDims, {.kind = RopeScaling::Kind::Linear, .factor = 2}).frequencies;
  ASSERT_EQ(plain.size(), 16u);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(slow[i], plain[i] / 2);
}

TEST(RopeScaling, DynamicChangesNothingWithinTheContext) {
  EXPECT_EQ(scaled_rope(kTheta, kDims, {.kind = RopeScaling::Kind::Dynamic, .factor = 4}),
            scaled_rope(kTheta, kDims, {}));
}

// Pairs that turn more than four times in 1024 tokens stay, those that turn less than once are
// eight times slower, and in between frequencies fall as they do without the scaling.
TEST(RopeScaling, Llama3StretchesSlowPairsOnly) {
  const auto plain = scaled_rope(kTheta, kDims, {}).frequencies;
  const auto scaled = scaled_rope(kTheta, kDims, llama3()).frequencies;
  int between = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double turns = 1024 * plain[i] / (2 * std::numbers::pi);
    if (turns > 4) {
      EXPECT_EQ(scaled[i], plain[i]);
    } else if (turns < 1) {
      EXPECT_EQ(scaled[i], plain[i] / 8);
    } else {
      ++between;
      const double share = (turns - 1) / 3;
      EXPECT_NEAR(scaled[i], plain[i] * (share + (1 - share) / 8), 1e-12);
    }
    if (i > 0) {
      EXPECT_LT(scaled[i], scaled[i - 1]);
    }
  }
  EXPECT_GT(between, 0);
}

TEST(RopeScaling, YarnKeepsFastPairsAndGrowsWhatTurns) {
  const Rope plain = scaled_rope(kTheta, kDims, {});
  const Rope scaled = scaled_rope(kTheta, kDims, yarn());
  EXPECT_EQ(scaled.magnitude, 1.1);
  EXPECT_EQ(scaled.frequencies.front(), plain.frequencies.front());
  EXPECT_EQ(scaled.frequencies.back(), plain.frequencies.back() / 4);
}

}  // namespace
}  // namespace cleave::model
