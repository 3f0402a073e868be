#include "cleave/base/elementary.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "cleave/base/hash.h"
#include "cleave/base/philox.h"

namespace cleave {
namespace {

/// `count` numbers that are spread evenly over [low, high), the same on every machine.
template <class Fn>
void sweep(double low, double high, int count, const Fn& fn) {
  const Philox random(11, "sweep");
  for (int i = 0; i < count; ++i) {
    const auto words = random.block(static_cast<std::uint64_t>(i));
    fn(low + (high - low) * ((words[0] + words[1] * 0x1p-32) * 0x1p-32));
  }
}

double relative_error(double actual, double expected) {
  return std::abs(actual - expected) / std::abs(expected);
}

constexpr double kUnit = 0x1p-52;

TEST(Elementary, LogIsWithinTwoUnits) {
  for (auto [low, high] : {std::pair{1e-12, 1.0}, {0.5, 2.0}, {0.999, 1.001}, {1.0, 1e9}}) {
    sweep(low, high, 20000, [&](double x) {
      // Next to 1, where the result is as small as x - 1, an argument has fewer digits to give.
      ASSERT_LE(std::abs(natural_log(x) - std::log(x)), 2 * kUnit * std::abs(std::log(x))) << x;
    });
  }
  EXPECT_EQ(natural_log(1), 0);
  EXPECT_THROW(natural_log(0), std::exception);
}

TEST(Elementary, ExponentialIsWithinTwoUnits) {
  for (auto [low, high] : {std::pair{-1.0, 1.0}, {-700.0, 700.0}}) {
    sweep(low, high, 20000,
          [](double x) { ASSERT_LE(relative_error(exponential(x), std::exp(x)), 2 * kUnit) << x; });
  }
  EXPECT_EQ(exponential(0), 1);
  EXPECT_EQ(exponential(-std::numeric_limits<double>::infinity()), 0);
  EXPECT_TRUE(std::isnan(exponential(NAN)));
}

TEST(Elementary, SineAndCosineAreWithinAUnitOfOne) {
  for (double most : {1.0, 7.0, 1e3, 1e8}) {
    sweep(-most, most, 20000, [](double x) {
      ASSERT_LE(std::abs(sine_cosine(x).sine - std::sin(x)), kUnit) << x;
      ASSERT_LE(std::abs(sine_cosine(x).cosine - std::cos(x)), kUnit) << x;
    });
  }
  EXPECT_EQ(sine_cosine(0).sine, 0);
  EXPECT_EQ(sine_cosine(0).cosine, 1);
}

TEST(Elementary, PowerAgreesWithTheLibrary) {
  for (double base : {0.9, 0.95, 0.999}) {
    for (std::int64_t exponent : {0, 1, 2, 3, 10, 1000, 100000}) {
      const double expected = std::pow(base, static_cast<double>(exponent));
      const double error = (static_cast<double>(exponent) + 1) * kUnit * expected;
      // Below the normal numbers an error is absolute.
      EXPECT_NEAR(power(base, exponent), expected, error + 0x1p-1022) << base << "^" << exponent;
    }
  }
}

// The point of having them: these are the bits on every machine. Change them, and every trained
// weight changes.
TEST(Elementary, HasTheseBits) {
  Hasher hasher;
  const auto add = [&](double value) { hasher.add(std::as_bytes(std::span(&value, 1))); };
  sweep(1e-9, 100, 5000, [&](double x) {
    add(natural_log(x));
    add(exponential(x));
    add(sine_cosine(x).sine);
    add(sine_cosine(x).cosine);
    add(power(x, 7));
  });
  std::array<float, 1000> normals{};
  Philox(1, "init", "a").fill_normal(0, normals);
  hasher.add(std::as_bytes(std::span(normals)));

  EXPECT_EQ(to_hex(hasher.digest()), "78dc1580d600b7d0");
}

}  // namespace
}  // namespace cleave
