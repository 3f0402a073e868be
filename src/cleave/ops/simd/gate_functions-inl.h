// GELU in its forms, and SiLU, in vectors of f32. Included once per instruction set.

#if defined(CLEAVE_OPS_SIMD_GATE_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CLEAVE_OPS_SIMD_GATE_FUNCTIONS_INL_H_
#undef CLEAVE_OPS_SIMD_GATE_FUNCTIONS_INL_H_
#else
#define CLEAVE_OPS_SIMD_GATE_FUNCTIONS_INL_H_
#endif

#include "cleave/ops/simd/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cleave::ops::HWY_NAMESPACE {

// tanh form of GELU: (1 + tanh u) / 2 = sigmoid(2u), and 2u = x (kGeluLinear + kGeluCubic x²).
inline constexpr float kGeluLinear = 1.5957691216057308f;  // 2 √(2/π)
inline constexpr float kGeluCubic = 0.0713548162726009f;   // 0.044715 · kGeluLinear

/// What an activation is at some place, and how fast it grows there.
struct Activated {
  Vec value;
  Vec slope;
};

struct TanhGelu {
  static HWY_INLINE Vec value(Vec v) {
    const Vec u = hn::Mul(v, mul_add(hn::Mul(v, v), set(kGeluCubic), set(kGeluLinear)));
    return hn::Mul(v, sigmoid(u).value);
  }
  static HWY_INLINE Activated both(Vec v) {
    const Vec square = hn::Mul(v, v);
    const Vec u = hn::Mul(v, mul_add(square, set(kGeluCubic), set(kGeluLinear)));
    const Vec du = mul_add(square, set(3 * kGeluCubic), set(kGeluLinear));
    const Sigmoid s = sigmoid(u);
    return {hn::Mul(v, s.value), mul_add(hn::Mul(v, du), s.slope, s.value)};
  }
  static HWY_INLINE Vec slope(Vec v) { return both(v).slope; }
};

struct Silu {
  static HWY_INLINE Vec value(Vec v) { return hn::Mul(v, sigmoid(v).value); }
  static HWY_INLINE Activated both(Vec v) {
    const Sigmoid s = sigmoid(v);
    return {hn::Mul(v, s.value), mul_add(v, s.slope, s.value)};
  }
};

/// Φ(x), the share of a normal distribution that lies below x. Its tail is erfc(z) / 2 with z = |x|
/// / √2, and erfc(z) = t e^(-z² + P(t)) with t = 1 / (1 + z / 2), to 1.2e-7 of it everywhere (Press
/// et al., Numerical Recipes, 6.2).
HWY_INLINE Vec normal_below(Vec x) {
  const Vec z = hn::Mul(hn::Abs(x), set(0.70710678118654752f));
  const Vec t = hn::Div(set(1.0f), mul_add(z, set(0.5f), set(1.0f)));
  Vec p = set(0.17087277f);
  p = mul_add(p, t, set(-0.82215223f));
  p = mul_add(p, t, set(1.48851587f));
  p = mul_add(p, t, set(-1.13520398f));
  p = mul_add(p, t, set(0.27886807f));
  p = mul_add(p, t, set(-0.18628806f));
  p = mul_add(p, t, set(0.09678418f));
  p = mul_add(p, t, set(0.37409196f));
  p = mul_add(p, t, set(1.00002368f));
  p = mul_add(p, t, set(-1.26551223f));
  const Vec tail = hn::Mul(hn::Mul(t, set(0.5f)), exp(neg_mul_add(z, z, p)));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(F32())), tail, hn::Sub(set(1.0f), tail));
}

struct ExactGelu {
  static HWY_INLINE Vec value(Vec v) { return hn::Mul(v, normal_below(v)); }
  static HWY_INLINE Vec slope(Vec v) {
    const Vec density = hn::Mul(set(0.39894228040143268f), exp(hn::Mul(hn::Mul(v, v), set(-0.5f))));
    return mul_add(v, density, normal_below(v));
  }
};

struct QuickGelu {
  static HWY_INLINE Vec value(Vec v) { return hn::Mul(v, sigmoid(hn::Mul(v, set(1.702f))).value); }
  static HWY_INLINE Vec slope(Vec v) {
    const Vec u = hn::Mul(v, set(1.702f));
    const Sigmoid s = sigmoid(u);
    return mul_add(u, s.slope, s.value);
  }
};

}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
