// Vectors of f32, whatever the memory holds, and the loops over them. Compiled once per instruction
// set, hence the guard that toggles instead of #pragma once.
//
// One body serves whole vectors and the tail of a row: it is written against a Part, which says how
// many lanes are real. So an element comes out the same wherever it lies.

#if defined(CLEAVE_OPS_SIMD_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CLEAVE_OPS_SIMD_VECTOR_INL_H_
#undef CLEAVE_OPS_SIMD_VECTOR_INL_H_
#else
#define CLEAVE_OPS_SIMD_VECTOR_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include <hwy/highway.h>

#include "cleave/tensor/view.h"

HWY_BEFORE_NAMESPACE();
namespace cleave::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using Vec = hn::Vec<F32>;
inline constexpr std::size_t kLanes = HWY_LANES(float);

/// All lanes of a vector.
struct Whole {};
/// The first `count` lanes, fewer than all.
struct First {
  std::size_t count;
};

HWY_INLINE Vec set(float value) {
  return hn::Set(F32(), value);
}

HWY_INLINE Vec load(const float* p, Whole) {
  return hn::LoadU(F32(), p);
}

HWY_INLINE Vec load(const BFloat16* p, Whole) {
  const hn::Rebind<std::uint16_t, F32> half;
  const hn::RebindToUnsigned<F32> bits;
  const auto upper = hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(p));
  return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(bits, upper)));
}

HWY_INLINE void store(Vec v, float* p, Whole) {
  hn::StoreU(v, F32(), p);
}

/// The upper halves, rounded to nearest even; NaN keeps its sign and gets the quiet bit.
HWY_INLINE void store(Vec v, BFloat16* p, Whole) {
  const hn::RebindToUnsigned<F32> u32;
  const hn::RebindToSigned<F32> i32;
  const hn::Rebind<std::uint16_t, F32> half;
  const auto bits = hn::BitCast(u32, v);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(u32, 1));
  const auto up = hn::Add(bits, hn::Add(odd, hn::Set(u32, 0x7fff)));
  const auto nan = hn::RebindMask(u32, hn::IsNaN(v));
  const auto quiet = hn::Or(upper, hn::Set(u32, 0x40));
  const auto rounded = hn::IfThenElse(nan, quiet, hn::ShiftRight<16>(up));
  hn::StoreU(hn::DemoteTo(half, hn::BitCast(i32, rounded)), half,
             reinterpret_cast<std::uint16_t*>(p));
}

/// The lanes past the count are 0.
template <class T>
HWY_INLINE Vec load(const T* p, First first) {
  T lanes[kLanes] = {};
  std::memcpy(lanes, p, first.count * sizeof(T));
  return load(lanes, Whole());
}

template <class T>
HWY_INLINE void store(Vec v, T* p, First first) {
  T lanes[kLanes];
  store(v, lanes, Whole());
  std::memcpy(p, lanes, first.count * sizeof(T));
}

/// `v` in the lanes that are real, `other` in the rest.
HWY_INLINE Vec real_or(Vec v, Vec, Whole) {
  return v;
}
HWY_INLINE Vec real_or(Vec v, Vec other, First first) {
  return hn::IfThenElse(hn::FirstN(F32(), first.count), v, other);
}

/// body(i, part) for the vectors of [0, n) in order.
template <class Body>
HWY_INLINE void for_vectors(std::size_t n, const Body& body) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, Whole());
  if (i < n) body(i, First{n - i});
}

/// combine() over term(i, part) in a fixed order: vector i goes to accumulator i % 4, the tail to
/// the first, then pairwise. The terms of a tail are made neutral by `start`.
template <class Combine, class Term>
HWY_INLINE Vec fold_vectors(std::size_t n, Vec start, const Combine& combine, const Term& term) {
  Vec a0 = start;
  Vec a1 = start;
  Vec a2 = start;
  Vec a3 = start;
  std::size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a0 = combine(a0, term(i, Whole()));
    a1 = combine(a1, term(i + kLanes, Whole()));
    a2 = combine(a2, term(i + 2 * kLanes, Whole()));
    a3 = combine(a3, term(i + 3 * kLanes, Whole()));
  }
  for (; i + kLanes <= n; i += kLanes) a0 = combine(a0, term(i, Whole()));
  if (i < n) a0 = combine(a0, real_or(term(i, First{n - i}), start, First{n - i}));
  return combine(combine(a0, a1), combine(a2, a3));
}

template <class Term>
HWY_INLINE float sum_vectors(std::size_t n, const Term& term) {
  const auto plus = [](Vec a, Vec b) HWY_ATTR { return hn::Add(a, b); };
  return hn::GetLane(hn::SumOfLanes(F32(), fold_vectors(n, hn::Zero(F32()), plus, term)));
}

template <class Term>
HWY_INLINE float max_vectors(std::size_t n, const Term& term) {
  const auto larger = [](Vec a, Vec b) HWY_ATTR { return hn::Max(a, b); };
  const Vec lowest = set(-std::numeric_limits<float>::infinity());
  return hn::GetLane(hn::MaxOfLanes(F32(), fold_vectors(n, lowest, larger, term)));
}

/// Calls fn(T()) with the element type of a f32 or bf16 tensor.
template <class Fn>
HWY_INLINE void with_element(DType dtype, const Fn& fn) {
  if (dtype == DType::F32) {
    fn(float());
  } else {
    fn(BFloat16());
  }
}

}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
