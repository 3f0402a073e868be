// exp and what is built from it, in vectors of f32. Included once per instruction set.

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
  // Not Min and Max, which on some targets answer a NaN with the other operand.
  const Vec t = hn::IfThenElse(below, lowest, hn::IfThenElse(hn::Gt(x, highest), highest, x));

  // Adding 1.5 · 2^23 rounds to an integer, which is then also in the low bits of the sum.
  const Vec shifter = set(12582912.0f);
  const Vec shifted = hn::MulAdd(t, set(1.44269504088896341f), shifter);
  const Vec k = hn::Sub(shifted, shifter);
  // ln 2 in two parts; k times the first is exact without FMA too.
  Vec r = hn::NegMulAdd(k, set(0.693359375f), t);
  r = hn::NegMulAdd(k, set(-2.12194440e-4f), r);

  Vec p = set(1.9875691500e-4f);
  p = hn::MulAdd(p, r, set(1.3981999507e-3f));
  p = hn::MulAdd(p, r, set(8.3334519073e-3f));
  p = hn::MulAdd(p, r, set(4.1665795894e-2f));
  p = hn::MulAdd(p, r, set(1.6666665459e-1f));
  p = hn::MulAdd(p, r, set(5.0000001201e-1f));
  p = hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), set(1.0f));

  const hn::RebindToSigned<F32> bits;
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(bits, shifted));
  const Vec result = hn::BitCast(F32(), hn::Add(hn::BitCast(bits, p), exponent));
  return hn::IfThenZeroElse(below, result);
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
