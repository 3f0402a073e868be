#pragma once

#include <cmath>
#include <cstring>

#include "ops/tensor.h"
#include <gtest/gtest.h>

namespace cleave::testing {

inline constexpr double kRound = 0x1p-24;  // half an ulp of f32, relative

/// Every element of `actual` within `error` of the f32 `expected`, and if it is bf16 within that
/// plus its own rounding, half an ulp: 2^-8 of the value.
inline void expect_close(Tensor& actual, Tensor& expected, double error) {
  const std::int64_t count = actual.view().elements();
  ASSERT_EQ(count, expected.view().elements());
  const double rounding = actual.view().dtype() == DType::BF16 ? 0x1p-8 : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double bound = error + rounding * (std::abs(expected[i]) + error);
    ASSERT_NEAR(actual[i], expected[i], bound) << "element " << i << " of " << count;
  }
}

inline void expect_same_bits(ConstView a, ConstView b) {
  ASSERT_EQ(a.byte_count(), b.byte_count());
  ASSERT_EQ(std::memcmp(a.bytes(), b.bytes(), a.byte_count()), 0);
}

/// df/dx by the five-point stencil: error h⁴ f⁽⁵⁾ / 30, plus 1.5 / h times the noise of f.
template <class Fn>
double slope(float& x, const Fn& f) {
  constexpr float h = 0x1p-6f;
  const float at = x;
  const auto value = [&](float offset) {
    x = at + offset;
    return f();
  };
  const double result =
      (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * double{h});
  x = at;
  return result;
}

/// Σ a · b in f64.
inline double dot(Tensor& a, Tensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.view().elements(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

}  // namespace cleave::testing
