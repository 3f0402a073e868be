#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "support/errors.h"
#include <gtest/gtest.h>

#include "cleave/edge/fixed_point.h"
#include "cleave/edge/outer.h"
#include "cleave/edge/partition.h"

namespace cleave::edge {
namespace {

/// 1000 samples of 10 labels.
std::vector<int> ten_labels() {
  std::vector<int> labels(1000);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int>(i * 7 % 10);
  return labels;
}

TEST(ShareOut, GivesEverySampleToOneClientByEveryRule) {
  const std::vector<int> labels = ten_labels();
  for (const std::string_view rule : partition_rules()) {
    const Partitioning how{.rule = std::string(rule), .clients = 20, .alpha = 0.1, .seed = 5};
    const auto shares = share_out(labels, how);

    std::vector<std::int64_t> all;
    for (const auto& share : shares) {
      EXPECT_FALSE(share.empty()) << rule;
      all.insert(all.end(), share.begin(), share.end());
    }
    std::ranges::sort(all);
    std::vector<std::int64_t> expected(labels.size());
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected) << rule;
    EXPECT_EQ(share_out(labels, how), shares) << rule;
    Partitioning other = how;
    other.seed = 6;
    EXPECT_NE(share_out(labels, other), shares) << rule;
  }
}

TEST(ShareOut, DealsEquallyUnlessTheRuleIsUneven) {
  const std::vector<int> labels = ten_labels();
  const auto spread = [&](const std::string& rule, double alpha) {
    const auto shares = share_out(labels, {.rule = rule, .clients = 10, .alpha = alpha});
    const auto [least, most] =
        std::ranges::minmax(shares, {}, [](const auto& share) { return share.size(); });
    return most.size() - least.size();
  };
  EXPECT_EQ(spread("iid", 1), 0u);
  EXPECT_GT(spread("quantity", 0.3), 100u);
  EXPECT_LT(spread("quantity", 1e4), 20u);
  EXPECT_GT(spread("dirichlet", 0.1), 50u);
}

TEST(ShareOut, LimitsTheLabelsOfAClient) {
  const std::vector<int> labels = ten_labels();
  for (const auto& share : share_out(labels, {.rule = "labels", .clients = 10, .labels = 3})) {
    std::vector<int> own;
    for (const std::int64_t sample : share) own.push_back(labels[sample]);
    std::ranges::sort(own);
    const auto distinct = std::distance(own.begin(), std::unique(own.begin(), own.end()));
    EXPECT_EQ(distinct, 3);
  }
}

TEST(ShareOut, RefusesMoreClientsThanSamples) {
  EXPECT_EQ(cleave::testing::user_error([] { share_out(std::vector<int>(3), {.clients = 4}); }),
            "edge.clients is 4, but there are 3 sequences to share out; take fewer clients, or "
            "give more data");
}

/// What a rule makes of a weight in three rounds.
std::vector<double> followed(const std::string& name, const std::vector<double>& updates) {
  const OuterKind& kind = *find_outer(name);
  float weight = 1, momentum = 0, squares = 0;
  std::vector<double> weights;
  for (const double update : updates) {
    kind.update({.weights = std::span(&weight, 1),
                 .update = std::span(&update, 1),
                 .momentum = std::span(&momentum, kind.momentum ? 1 : 0),
                 .squares = std::span(&squares, kind.squares ? 1 : 0)},
                kind.usual);
    weights.push_back(weight);
  }
  return weights;
}

// By hand, from the formulas of the papers; f32 keeps 7 digits.
TEST(Outer, FollowsAsThePapersSay) {
  const auto near = [](const std::vector<double>& a, const std::vector<double>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6) << i;
  };
  near(followed("mean", {0.5, -0.25}), {1.5, 1.25});
  near(followed("median", {0.5, -0.25}), {1.5, 1.25});
  near(followed("momentum", {0.5, -0.25}), {1.5, 1.5 + (0.9 * 0.5 - 0.25)});
  // torch: buf = 0.5, step 0.5 + 0.9·0.5; then buf = 0.45 - 0.25 = 0.2, step -0.25 + 0.9·0.2.
  near(followed("nesterov", {0.5, -0.25}), {1 + 0.7 * 0.95, 1 + 0.7 * 0.95 + 0.7 * -0.07});
  const double m = 0.05, v = 0.01 * 0.25;
  near(followed("adam", {0.5}), {1 + 0.01 * m / (std::sqrt(v) + 1e-3)});
  near(followed("yogi", {0.5}), {1 + 0.01 * m / (std::sqrt(v) + 1e-3)});
  // The second square, 0.01, is more than v = 0.0025: yogi adds 0.01 of it, and adam decays first.
  const double m2 = 0.9 * m + 0.1 * 0.1;
  near({followed("yogi", {0.5, 0.1})[1]},
       {followed("yogi", {0.5})[0] + 0.01 * m2 / (std::sqrt(v + 0.01 * 0.01) + 1e-3)});
  near({followed("adam", {0.5, 0.1})[1]},
       {followed("adam", {0.5})[0] + 0.01 * m2 / (std::sqrt(0.99 * v + 0.01 * 0.01) + 1e-3)});
}

TEST(Outer, TakesTheMiddle) {
  std::vector<float> odd = {5, -100, 2, 3, 1000};
  EXPECT_EQ(median_of(odd), 3);
  std::vector<float> even = {5, -100, 2, 1000};
  EXPECT_EQ(median_of(even), 3.5);
}

TEST(Outer, LeavesTheExtremesOut) {
  std::vector<float> values = {5, -100, 2, 3, 1000};
  EXPECT_EQ(trimmed_mean_of(values, 1), (2.0 + 3.0 + 5.0) / 3);
  EXPECT_EQ(trimmed_mean_of(values, 2), 3);
}

// Clients at 0, 1, 2, 10 and 100: of five, one of whom may lie, each counts its two nearest. 1 has
// 1 + 1, 0 has 1 + 4, 2 has 1 + 4, 10 has 64 + 81.
TEST(Outer, FollowsTheClientWithTheNearestOthers) {
  const double at[] = {100, 2, 1, 10, 0};
  std::vector<double> squares;
  for (const double a : at)
    for (const double b : at) squares.push_back((a - b) * (a - b));
  EXPECT_EQ(nearest_of(squares, 5, 1), 2u);
}

// One client of five may send anything, and sends what compares with nothing.
TEST(Outer, IsNotSwayedByAClientThatSendsNoNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t bad = 0; bad < 5; ++bad) {
    std::vector<float> values = {5, 2, 3, 4, 1};
    values[bad] = nan;
    std::vector<float> copy = values;
    EXPECT_GE(median_of(values), 2) << bad;
    EXPECT_LE(median_of(values), 4) << bad;
    EXPECT_GE(trimmed_mean_of(copy, 1), 2) << bad;
    EXPECT_LE(trimmed_mean_of(copy, 1), 5) << bad;
  }
}

TEST(Outer, NeverFollowsAClientThatSendsNoNumber) {
  for (std::size_t bad = 0; bad < 5; ++bad) {
    double at[] = {100, 2, 1, 10, 0};
    at[bad] = std::numeric_limits<double>::quiet_NaN();
    std::vector<double> squares;
    for (const double a : at)
      for (const double b : at) squares.push_back((a - b) * (a - b));
    // Of 100, 2, 1, 10 and 0 the one with the nearest two others, where one is not there.
    const std::size_t nearest[] = {2, 2, 1, 2, 1};
    EXPECT_EQ(nearest_of(squares, 5, 1), nearest[bad]) << bad;
  }
}

TEST(FixedPoint, AddsToTheSameBitsInAnyOrderAndTakesOutAgain) {
  std::vector<double> values;
  for (int i = 0; i < 200; ++i) values.push_back(std::sin(i * 1.7) * std::ldexp(1.0, i % 24 - 12));
  std::uint64_t sum = 0;
  for (const double value : values) ASSERT_TRUE(add_fixed(value, sum));
  for (int turn = 0; turn < 100; ++turn) {
    std::rotate(values.begin(), values.begin() + 7, values.end());
    std::swap(values[turn], values[199 - turn]);
    std::uint64_t other = 0;
    for (const double value : values) ASSERT_TRUE(add_fixed(value, other));
    EXPECT_EQ(other, sum);
  }
  const double exact = std::accumulate(values.begin(), values.end(), 0.0);
  EXPECT_NEAR(from_fixed(sum), exact, 200 * 0.5 * kFixedUnit + 1e-10);
  std::uint64_t without = sum;
  ASSERT_TRUE(add_fixed(-values[0], without));
  std::uint64_t rest = 0;
  for (std::size_t i = 1; i < values.size(); ++i) ASSERT_TRUE(add_fixed(values[i], rest));
  EXPECT_EQ(without, rest);
}

TEST(FixedPoint, RefusesWhatItCannotHold) {
  std::uint64_t sum = 3;
  EXPECT_FALSE(add_fixed(kMostFixed * 1.001, sum));
  EXPECT_FALSE(add_fixed(std::numeric_limits<double>::quiet_NaN(), sum));
  EXPECT_FALSE(add_fixed(-std::numeric_limits<double>::infinity(), sum));
  EXPECT_EQ(sum, 3u);
}

}  // namespace
}  // namespace cleave::edge
