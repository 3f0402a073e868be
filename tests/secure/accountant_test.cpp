#include "cleave/secure/accountant.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "cleave/secure/noise.h"

namespace cleave::secure {
namespace {

TEST(Accountant, HasTheValueThatWasPublished) {
  const NoisyRounds how{.noise = 1.5, .rate = 0.04, .delta = 1e-5};
  EXPECT_NEAR(epsilon_after(2250, how), 7.32911117143, 1e-9);
}

// Without sampling the divergence of order a is a / 2σ² in closed form.
TEST(Accountant, HasTheClosedFormWhereEveryoneTakesPart) {
  const NoisyRounds all{.noise = 4, .rate = 1, .delta = 1e-5};
  double least = std::numeric_limits<double>::infinity();
  for (int i = 11; i < 640; ++i) {
    const double a = i <= 110 ? i / 10.0 : std::floor(i / 10.0);
    least = std::min(
        least, 10 * a / 32 - (std::log(1e-5) + std::log(a)) / (a - 1) + std::log((a - 1) / a));
  }
  EXPECT_NEAR(epsilon_after(10, all), least, 1e-12);
  const NoisyRounds nearly{.noise = 4, .rate = 1 - 1e-9, .delta = 1e-5};
  EXPECT_NEAR(epsilon_after(10, nearly), least, 1e-6) << "the series comes to the same";
}

TEST(Accountant, CountsMoreForMoreRoundsLessNoiseAndLargerShares) {
  const NoisyRounds how{.noise = 1, .rate = 0.1, .delta = 1e-5};
  EXPECT_EQ(epsilon_after(0, how), 0);
  EXPECT_LT(epsilon_after(10, how), epsilon_after(20, how));
  EXPECT_LT(epsilon_after(10, {.noise = 2, .rate = 0.1}), epsilon_after(10, how));
  EXPECT_LT(epsilon_after(10, {.noise = 1, .rate = 0.05}), epsilon_after(10, how));
  EXPECT_EQ(epsilon_after(1, {.noise = 0}), std::numeric_limits<double>::infinity());
}

TEST(Accountant, SaysHowManyRoundsABudgetAllows) {
  const NoisyRounds how{.noise = 1.1, .rate = 0.2, .delta = 1e-5};
  const std::int64_t rounds = rounds_within(8, how);
  EXPECT_GT(rounds, 0);
  EXPECT_LE(epsilon_after(rounds, how), 8);
  EXPECT_GT(epsilon_after(rounds + 1, how), 8);
  EXPECT_EQ(rounds_within(0.01, how), 0);
}

TEST(Noise, IsNormalAndAFunctionOfItsKey) {
  Bytes32 key{};
  std::vector<double> numbers(100'000);
  fill_noise(key, 0, numbers);
  double mean = 0, square = 0, fourth = 0;
  for (const double x : numbers) {
    mean += x / 1e5;
    square += x * x / 1e5;
    fourth += x * x * x * x / 1e5;
  }
  EXPECT_NEAR(mean, 0, 0.015);
  EXPECT_NEAR(square, 1, 0.02);
  EXPECT_NEAR(fourth, 3, 0.15);

  std::vector<double> part(700);
  fill_noise(key, 1234, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), numbers.begin() + 1234));
  key[0] = 1;
  fill_noise(key, 1234, part);
  EXPECT_NE(part[0], numbers[1234]);
}

}  // namespace
}  // namespace cleave::secure
