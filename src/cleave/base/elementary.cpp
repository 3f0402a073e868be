#include "cleave/base/elementary.h"

#include <cmath>
#include <cstddef>
#include <numbers>

#include "cleave/base/check.h"

namespace cleave {
namespace {

/// Σ terms[i] xⁱ from the highest power down.
template <std::size_t kTerms>
double polynomial(double x, const double (&terms)[kTerms]) {
  double sum = terms[kTerms - 1];
  for (std::size_t i = kTerms - 1; i-- > 0;) sum = sum * x + terms[i];
  return sum;
}

/// The whole number next to x, |x| < 2^51: adding 1.5 · 2^52 leaves no room for a fraction.
double nearest(double x) {
  constexpr double kShifter = 0x1.8p52;
  return (x + kShifter) - kShifter;
}

constexpr double factorial(int n) {
  double product = 1;
  for (int i = 2; i <= n; ++i) product *= i;
  return product;
}

/// (-1)ⁱ / (2i + first)!, the terms of sine (first 1) and cosine (first 0) in x².
template <int kFirst, int kTerms>
struct Alternating {
  double terms[kTerms] = {};
  constexpr Alternating() {
    for (int i = 0; i < kTerms; ++i) terms[i] = (i % 2 == 0 ? 1 : -1) / factorial(2 * i + kFirst);
  }
};

// π/2 in four parts. The first three have 26 bits, so that a whole number below 2^27 times one of
// them is exact.
constexpr double kHalfPi[] = {0x1.921fb5p+0, 0x1.110b46p-26, 0x1.1a6263p-54, 0x1.8a2e03707344ap-81};

// ln 2 in two parts, the first of 32 bits.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

}  // namespace

SineCosine sine_cosine(double angle) {
  CLEAVE_CHECK(std::abs(angle) <= 1e8, "angle ", angle);
  const double quarters = nearest(angle * (2 / std::numbers::pi));
  double x = angle;
  for (double part : kHalfPi) x -= quarters * part;
  // |x| ≤ π/4: the first terms left out are below 2^-60.
  static constexpr Alternating<1, 9> kSine;
  static constexpr Alternating<0, 10> kCosine;
  const double square = x * x;
  const double sine = x * polynomial(square, kSine.terms);
  const double cosine = polynomial(square, kCosine.terms);
  switch (static_cast<std::int64_t>(quarters) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

double natural_log(double x) {
  CLEAVE_CHECK(x > 0 && std::isfinite(x), "logarithm of ", x);
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < std::numbers::sqrt2 / 2) {
    mantissa *= 2;
    --exponent;
  }
  // ln (1 + f) = 2 atanh s with s = f / (2 + f), |s| ≤ 0.172. Its leading part 2s is written as
  // f - s f, of which f is exact.
  const double f = mantissa - 1;
  const double s = f / (2 + f);
  static constexpr double kTerms[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                                      2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
  const double square = s * s;
  const double rest = s * (f - square * polynomial(square, kTerms));
  const double k = exponent;
  return k * kLn2High + (f - (rest - k * kLn2Low));
}

double exponential(double x) {
  CLEAVE_CHECK(!(x > 709), "exponential of ", x);
  if (std::isnan(x)) return x;
  if (x < -708) return 0;
  const double k = nearest(x * (1 / std::numbers::ln2));
  const double r = (x - k * kLn2High) - k * kLn2Low;
  // |r| ≤ ln 2 / 2: r^14 / 14! is below 2^-57.
  static constexpr double kTerms[] = {
      1.0,
      1.0 / factorial(2),
      1.0 / factorial(3),
      1.0 / factorial(4),
      1.0 / factorial(5),
      1.0 / factorial(6),
      1.0 / factorial(7),
      1.0 / factorial(8),
      1.0 / factorial(9),
      1.0 / factorial(10),
      1.0 / factorial(11),
      1.0 / factorial(12),
      1.0 / factorial(13),
  };
  return std::ldexp(1 + r * polynomial(r, kTerms), static_cast<int>(k));
}

double power(double base, std::int64_t exponent) {
  CLEAVE_CHECK(exponent >= 0, "power ", exponent);
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) result *= base;
  }
  return result;
}

}  // namespace cleave
