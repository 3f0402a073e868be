#include "cleave/secure/accountant.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace cleave::secure {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

/// log(e^a + e^b).
double log_sum(double a, double b) {
  const auto [low, high] = std::minmax(a, b);
  return low == kNothing ? high : high + std::log1p(std::exp(low - high));
}

/// log(e^a - e^b), a > b.
double log_difference(double a, double b) {
  return b == kNothing ? a : a + std::log1p(-std::exp(b - a));
}

/// log(erfc(x)), which itself would be 0 far out: there the first terms of its series.
double log_erfc(double x) {
  if (x < 25) return std::log(std::erfc(x));
  const double square = 1 / (x * x);
  return -x * x - std::log(x) - 0.5 * std::log(3.14159265358979323846) +
         std::log1p(-0.5 * square + 0.75 * square * square);
}

/// The logarithm of the moment of this order; the sum of two series, whose terms change their signs
/// after the order.
double log_moment(double order, const NoisyRounds& how) {
  const double variance = how.noise * how.noise;
  const double border = variance * std::log(1 / how.rate - 1) + 0.5;
  const double width = std::sqrt(2.0) * how.noise;
  double below = kNothing;
  double above = kNothing;
  double log_coefficient = 0;  // of the binomial series
  double sign = 1;
  for (int i = 0;; ++i) {
    const double rest = order - i;
    const double low = log_coefficient + i * std::log(how.rate) + rest * std::log1p(-how.rate) +
                       (static_cast<double>(i) * i - i) / (2 * variance) + std::log(0.5) +
                       log_erfc((i - border) / width);
    const double high = log_coefficient + rest * std::log(how.rate) + i * std::log1p(-how.rate) +
                        (rest * rest - rest) / (2 * variance) + std::log(0.5) +
                        log_erfc((border - rest) / width);
    below = sign > 0 ? log_sum(below, low) : log_difference(below, low);
    above = sign > 0 ? log_sum(above, high) : log_difference(above, high);
    if (std::max(low, high) < -30 || rest == 0) return log_sum(below, above);
    log_coefficient += std::log(std::fabs(rest)) - std::log(i + 1.0);
    if (rest < 0) sign = -sign;
  }
}

/// The Rényi divergence that one round costs.
double divergence(double order, const NoisyRounds& how) {
  if (how.rate >= 1) return order / (2 * how.noise * how.noise);
  return log_moment(order, how) / (order - 1);
}

std::vector<double> orders() {
  std::vector<double> all;
  for (int i = 1; i < 100; ++i) all.push_back(1 + i / 10.0);
  for (int i = 11; i < 64; ++i) all.push_back(i);
  return all;
}

/// What a divergence means (Balle et al., 2020).
double epsilon_of(double divergence, double order, double delta) {
  return divergence - (std::log(delta) + std::log(order)) / (order - 1) +
         std::log((order - 1) / order);
}

}  // namespace

double epsilon_after(std::int64_t rounds, const NoisyRounds& how) {
  if (rounds == 0 || how.rate == 0) return 0;
  if (how.noise == 0) return std::numeric_limits<double>::infinity();
  double least = std::numeric_limits<double>::infinity();
  for (const double order : orders()) {
    const double epsilon =
        epsilon_of(static_cast<double>(rounds) * divergence(order, how), order, how.delta);
    if (epsilon >= 0) least = std::min(least, epsilon);
  }
  return least;
}

std::int64_t rounds_within(double epsilon, const NoisyRounds& how) {
  std::int64_t enough = 0;
  std::int64_t too_many = 1;
  while (epsilon_after(too_many, how) <= epsilon && too_many < (std::int64_t{1} << 40))
    enough = std::exchange(too_many, 2 * too_many);
  while (too_many - enough > 1) {
    const std::int64_t middle = (enough + too_many) / 2;
    (epsilon_after(middle, how) <= epsilon ? enough : too_many) = middle;
  }
  return enough;
}

}  // namespace cleave::secure
