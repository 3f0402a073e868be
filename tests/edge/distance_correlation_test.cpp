#include "cleave/edge/distance_correlation.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "cleave/base/philox.h"

namespace cleave::edge {
namespace {

std::vector<double> apart(const std::vector<double>& things) {
  std::vector<double> out;
  for (const double a : things)
    for (const double b : things) out.push_back(std::abs(a - b));
  return out;
}

std::vector<double> drawn(std::size_t count, const char* name) {
  std::vector<float> values(count);
  Philox(1, "distances", name).fill_normal(0, values);
  return {values.begin(), values.end()};
}

/// The sums of Székely and Rizzo without centring anything first.
double covariance(const std::vector<double>& a, const std::vector<double>& b) {
  const auto n = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(a.size()))));
  double products = 0, rows = 0, all_a = 0, all_b = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double row_a = 0, row_b = 0;
    for (std::size_t j = 0; j < n; ++j) {
      products += a[i * n + j] * b[i * n + j];
      row_a += a[i * n + j];
      row_b += b[i * n + j];
    }
    rows += row_a * row_b;
    all_a += row_a;
    all_b += row_b;
  }
  const auto count = static_cast<double>(n);
  return products - 2 / (count - 2) * rows + all_a * all_b / ((count - 1) * (count - 2));
}

TEST(DistanceCorrelation, IsWhatTheSumsOfTheDefinitionGive) {
  const std::vector<double> x = drawn(40, "x");
  std::vector<double> y = drawn(40, "y");
  for (std::size_t i = 0; i < x.size(); ++i) y[i] += x[i] * x[i];
  const std::vector<double> a = apart(x), b = apart(y);

  const double squared = covariance(a, b) / std::sqrt(covariance(a, a) * covariance(b, b));

  ASSERT_GT(squared, 0.01);
  EXPECT_NEAR(distance_correlation(a, b), std::sqrt(squared), 1e-12);
}

TEST(DistanceCorrelation, IsOneForTheSameThingsInAnyScale) {
  const std::vector<double> x = drawn(20, "x");
  std::vector<double> twice = x;
  for (double& value : twice) value = 7 - 2 * value;
  EXPECT_NEAR(distance_correlation(apart(x), apart(x)), 1, 1e-12);
  EXPECT_NEAR(distance_correlation(apart(x), apart(twice)), 1, 1e-12);
}

TEST(DistanceCorrelation, IsZeroWhereAllThingsAreEqual) {
  EXPECT_EQ(distance_correlation(apart(drawn(10, "x")), apart(std::vector<double>(10, 3.0))), 0);
}

TEST(DistanceCorrelation, IsSmallForListsThatHaveNothingToDoWithEachOther) {
  // Its square has the mean 0 and, with 200 things, a deviation below 1/100.
  EXPECT_LT(distance_correlation(apart(drawn(200, "x")), apart(drawn(200, "y"))), 0.2);
}

}  // namespace
}  // namespace cleave::edge
