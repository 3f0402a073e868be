// exp, log and what is built from them, in vectors of f32. Included once per instruction set.

#if defined(CLEAVE_OPS_SIMD_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CLEAVE_OPS_SIMD_EXP_INL_H_
#undef CLEAVE_OPS_SIMD_EXP_INL_H_
#else
#define CLEAVE_OPS_SIMD_EXP_INL_H_
#endif

#include "cleave/ops/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cleave::ops::HWY_NAMESPACE {

/// e^x within 2 ulp on [-87.3, 88.3]; 0 below, e^88.3 above, NaN stays NaN.
///
/// x = k ln 2 + r with |r| ≤ ln 2 / 2; e^r by the polynomial of Cephes' expf; k goes straight into
/// the exponent field, so the result must be a normal number: hence the range.
HWY_INLINE Vec exp(Vec x) {
  const Vec lowest = set(-87.3f);
  const Vec highest = set(88.3f);
  const auto below = hn::Lt(x, lowest);
  // Min and Max would answer a NaN with the other operand on some targets.
  const Vec t = hn::IfThenElse(below, lowest, hn::IfThenElse(hn::Gt(x, highest), highest, x));

  // Adding 1.5 · 2^23 rounds to an integer, which is then also in the low bits of the sum.
  const Vec shifter = set(12582912.0f);
  const Vec shifted = mul_add(t, set(1.44269504088896341f), shifter);
  const Vec k = hn::Sub(shifted, shifter);
  // ln 2 in two parts; k times the first is exact without FMA too.
  Vec r = neg_mul_add(k, set(0.693359375f), t);
  r = neg_mul_add(k, set(-2.12194440e-4f), r);

  Vec p = set(1.9875691500e-4f);
  p = mul_add(p, r, set(1.3981999507e-3f));
  p = mul_add(p, r, set(8.3334519073e-3f));
  p = mul_add(p, r, set(4.1665795894e-2f));
  p = mul_add(p, r, set(1.6666665459e-1f));
  p = mul_add(p, r, set(5.0000001201e-1f));
  p = hn::Add(mul_add(hn::Mul(r, r), p, r), set(1.0f));

  const hn::RebindToSigned<F32> bits;
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(bits, shifted));
  const Vec result = hn::BitCast(F32(), hn::Add(hn::BitCast(bits, p), exponent));
  return hn::IfThenZeroElse(below, result);
}

/// ln x within 2 ulp for normal x > 0; infinity and NaN stay what they are.
///
/// x = 2^k (1 + f) with 1 + f in [√½, √2); ln (1 + f) = 2 atanh s with s = f / (2 + f), whose
/// leading part 2s is written as f - f²/2 + s f²/2, of which f is exact.
HWY_INLINE Vec log(Vec x) {
  const hn::RebindToSigned<F32> bits;
  const auto root_half = hn::BitCast(bits, set(0.70710678f));
  const auto above = hn::Sub(hn::BitCast(bits, x), root_half);
  const auto exponent = hn::ShiftRight<23>(above);
  const auto mantissa = hn::Sub(hn::BitCast(bits, x), hn::ShiftLeft<23>(exponent));
  const Vec k = hn::ConvertTo(F32(), exponent);
  const Vec f = hn::Sub(hn::BitCast(F32(), mantissa), set(1.0f));
  const Vec s = hn::Div(f, hn::Add(f, set(2.0f)));
  const Vec z = hn::Mul(s, s);
  Vec rest = mul_add(z, set(2.0f / 9), set(2.0f / 7));
  rest = mul_add(z, rest, set(2.0f / 5));
  rest = mul_add(z, rest, set(2.0f / 3));
  const Vec half_square = hn::Mul(hn::Mul(f, f), set(0.5f));
  // ln 2 in two parts, the first of 15 bits: k times it is exact.
  const Vec low = hn::Mul(k, set(1.42860682e-6f));
  const Vec tail = mul_add(s, mul_add(z, rest, half_square), low);
  const Vec result = mul_add(k, set(22713.0f / 32768), hn::Sub(f, hn::Sub(half_square, tail)));
  const auto finite = hn::Lt(x, set(std::numeric_limits<float>::infinity()));
  return hn::IfThenElse(finite, result, x);
}

/// tanh x within 2 ulp: by Cephes' polynomial near 0, where 1 − e^−2|x| would lose its digits.
HWY_INLINE Vec tanh(Vec x) {
  const Vec z = hn::Mul(x, x);
  Vec p = set(-5.70498872745e-3f);
  p = mul_add(p, z, set(2.06390887954e-2f));
  p = mul_add(p, z, set(-5.37397155531e-2f));
  p = mul_add(p, z, set(1.33314422036e-1f));
  p = mul_add(p, z, set(-3.33332819422e-1f));
  const Vec near = mul_add(hn::Mul(p, z), x, x);
  const Vec magnitude = hn::Abs(x);
  const Vec e = exp(hn::Add(magnitude, magnitude));
  const Vec far = hn::Sub(set(1.0f), hn::Div(set(2.0f), hn::Add(e, set(1.0f))));
  return hn::IfThenElse(hn::Lt(magnitude, set(0.625f)), near, hn::CopySign(far, x));
}

struct Sigmoid {
  Vec value;  // s
  Vec slope;  // s (1 - s)
};

/// 1 / (1 + e^-x) and its derivative. Through e^-|x|, so that neither loses digits nor overflows.
HWY_INLINE Sigmoid sigmoid(Vec x) {
  const Vec e = exp(hn::Neg(hn::Abs(x)));
  const Vec upper = hn::Div(set(1.0f), hn::Add(set(1.0f), e));
  const Vec lower = hn::Mul(e, upper);
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(F32())), lower, upper), hn::Mul(lower, upper)};
}

}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
