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

#include <cmath>
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

#if HWY_TARGET == HWY_SCALAR

// One rounding, as on every processor that has the instruction, and so the same bits.
HWY_INLINE Vec mul_add(Vec a, Vec b, Vec c) {
  return set(std::fma(hn::GetLane(a), hn::GetLane(b), hn::GetLane(c)));
}
HWY_INLINE Vec mul_sub(Vec a, Vec b, Vec c) {
  return mul_add(a, b, hn::Neg(c));
}
HWY_INLINE Vec neg_mul_add(Vec a, Vec b, Vec c) {
  return mul_add(hn::Neg(a), b, c);
}

#else

/// a b + c, a b - c and c - a b with one rounding; with two on SSE4, whose bits therefore differ.
HWY_INLINE Vec mul_add(Vec a, Vec b, Vec c) {
  return hn::MulAdd(a, b, c);
}
HWY_INLINE Vec mul_sub(Vec a, Vec b, Vec c) {
  return hn::MulSub(a, b, c);
}
HWY_INLINE Vec neg_mul_add(Vec a, Vec b, Vec c) {
  return hn::NegMulAdd(a, b, c);
}

#endif

using Half = hn::Rebind<std::uint16_t, F32>;  ///< a bf16 for each lane

HWY_INLINE Vec load(const float* p, Whole) {
  return hn::LoadU(F32(), p);
}
HWY_INLINE void store(Vec v, float* p, Whole) {
  hn::StoreU(v, F32(), p);
}
HWY_INLINE hn::Vec<Half> load_halves(const BFloat16* p, Whole) {
  return hn::LoadU(Half(), reinterpret_cast<const std::uint16_t*>(p));
}
HWY_INLINE void store_halves(hn::Vec<Half> v, BFloat16* p, Whole) {
  hn::StoreU(v, Half(), reinterpret_cast<std::uint16_t*>(p));
}

// Lanes past the count are loaded as 0 and not stored. Where an instruction set leaves memory alone
// that a mask excludes, they are masked: a narrow matrix has little else than such vectors.

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2

HWY_INLINE Vec load(const float* p, First first) {
  return hn::MaskedLoad(hn::FirstN(F32(), first.count), F32(), p);
}
HWY_INLINE void store(Vec v, float* p, First first) {
  hn::BlendedStore(v, hn::FirstN(F32(), first.count), F32(), p);
}

#else

HWY_INLINE Vec load(const float* p, First first) {
  float lanes[kLanes] = {};
  std::memcpy(lanes, p, first.count * sizeof(float));
  return load(lanes, Whole());
}
HWY_INLINE void store(Vec v, float* p, First first) {
  float lanes[kLanes];
  store(v, lanes, Whole());
  std::memcpy(p, lanes, first.count * sizeof(float));
}

#endif
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3

HWY_INLINE hn::Vec<Half> load_halves(const BFloat16* p, First first) {
  return hn::MaskedLoad(hn::FirstN(Half(), first.count), Half(),
                        reinterpret_cast<const std::uint16_t*>(p));
}
HWY_INLINE void store_halves(hn::Vec<Half> v, BFloat16* p, First first) {
  hn::BlendedStore(v, hn::FirstN(Half(), first.count), Half(), reinterpret_cast<std::uint16_t*>(p));
}

#else

HWY_INLINE hn::Vec<Half> load_halves(const BFloat16* p, First first) {
  BFloat16 lanes[kLanes] = {};
  std::memcpy(lanes, p, first.count * sizeof(BFloat16));
  return load_halves(lanes, Whole());
}
HWY_INLINE void store_halves(hn::Vec<Half> v, BFloat16* p, First first) {
  BFloat16 lanes[kLanes];
  store_halves(v, lanes, Whole());
  std::memcpy(p, lanes, first.count * sizeof(BFloat16));
}

#endif

template <class Part>
HWY_INLINE Vec load(const BFloat16* p, Part part) {
  const hn::RebindToUnsigned<F32> bits;
  return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(bits, load_halves(p, part))));
}

/// The upper halves, rounded to nearest even; NaN keeps its sign and gets the quiet bit.
template <class Part>
HWY_INLINE void store(Vec v, BFloat16* p, Part part) {
  const hn::RebindToUnsigned<F32> u32;
  const hn::RebindToSigned<F32> i32;
  const auto bits = hn::BitCast(u32, v);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(u32, 1));
  const auto up = hn::Add(bits, hn::Add(odd, hn::Set(u32, 0x7fff)));
  const auto nan = hn::RebindMask(u32, hn::IsNaN(v));
  const auto quiet = hn::Or(upper, hn::Set(u32, 0x40));
  const auto rounded = hn::IfThenElse(nan, quiet, hn::ShiftRight<16>(up));
  store_halves(hn::DemoteTo(Half(), hn::BitCast(i32, rounded)), p, part);
}

/// body(i, part) for the vectors of [0, n) in order.
template <class Body>
HWY_INLINE void for_vectors(std::size_t n, const Body& body) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, Whole());
  if (i < n) body(i, First{n - i});
}

/// Sums have 64 slots, whatever the vectors' width: element i goes to slot i % 64, in order of i.
/// So a sum has the same bits on every processor, and 64 elements of 0 in a row may be left out.
inline constexpr std::size_t kSlots = 64;
inline constexpr std::size_t kSlotVectors = kSlots / kLanes;

/// Adds up 64 slots: as four rows of 16, which are added pairwise, and then by halves of the row.
HWY_INLINE float sum_of_slots(const float* slots) {
  constexpr std::size_t kRow = 16 / kLanes;  // vectors
  const auto at = [=](std::size_t v) HWY_ATTR { return load(slots + v * kLanes, Whole()); };
  Vec row[kRow];
  for (std::size_t v = 0; v < kRow; ++v) {
    row[v] = hn::Add(hn::Add(at(v), at(kRow + v)), hn::Add(at(2 * kRow + v), at(3 * kRow + v)));
  }
  for (std::size_t half = kRow / 2; half > 0; half /= 2) {
    for (std::size_t v = 0; v < half; ++v) row[v] = hn::Add(row[v], row[v + half]);
  }
  float lanes[kLanes];
  store(row[0], lanes, Whole());
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

/// totals[k] = the k-th sum over [0, n). step(i, part, sums) adds the elements of one vector to the
/// vectors sums[0 … kSums); what it leaves in lanes that are not real is dropped.
template <int kSums, class Step>
HWY_INLINE void sum_vectors(std::size_t n, float* totals, const Step& step) {
  HWY_ALIGN float slots[kSums][kSlots];
  std::size_t i = 0;
  // While whole rounds last, the slots are registers: hence the loops of known length.
  Vec sums[kSlotVectors][kSums];
#pragma GCC unroll 16
  for (std::size_t v = 0; v < kSlotVectors; ++v) {
#pragma GCC unroll 2
    for (int k = 0; k < kSums; ++k) sums[v][k] = hn::Zero(F32());
  }
  for (; i + kSlots <= n; i += kSlots) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < kSlotVectors; ++v) step(i + v * kLanes, Whole(), sums[v]);
  }
#pragma GCC unroll 16
  for (std::size_t v = 0; v < kSlotVectors; ++v) {
#pragma GCC unroll 2
    for (int k = 0; k < kSums; ++k) store(sums[v][k], slots[k] + v * kLanes, Whole());
  }
  for_vectors(n - i, [&](std::size_t slot, auto part) HWY_ATTR {
    Vec few[kSums];
    for (int k = 0; k < kSums; ++k) few[k] = load(slots[k] + slot, Whole());
    step(i + slot, part, few);
    for (int k = 0; k < kSums; ++k) store(few[k], slots[k] + slot, part);
  });
  for (int k = 0; k < kSums; ++k) totals[k] = sum_of_slots(slots[k]);
}

/// The sum of term(i, part) over [0, n).
template <class Term>
HWY_INLINE float sum_vectors(std::size_t n, const Term& term) {
  float total = 0;
  sum_vectors<1>(n, &total, [&](std::size_t i, auto part, Vec* sum) HWY_ATTR {
    sum[0] = hn::Add(sum[0], term(i, part));
  });
  return total;
}

/// The largest of term(i, part) over [0, n); no order matters to it.
template <class Term>
HWY_INLINE float max_vectors(std::size_t n, const Term& term) {
  const Vec lowest = set(-std::numeric_limits<float>::infinity());
  Vec a0 = lowest;
  Vec a1 = lowest;
  Vec a2 = lowest;
  Vec a3 = lowest;
  std::size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a0 = hn::Max(a0, term(i, Whole()));
    a1 = hn::Max(a1, term(i + kLanes, Whole()));
    a2 = hn::Max(a2, term(i + 2 * kLanes, Whole()));
    a3 = hn::Max(a3, term(i + 3 * kLanes, Whole()));
  }
  for (; i + kLanes <= n; i += kLanes) a0 = hn::Max(a0, term(i, Whole()));
  if (i < n) {
    const First rest{n - i};
    a0 = hn::Max(a0, hn::IfThenElse(hn::FirstN(F32(), rest.count), term(i, rest), lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(F32(), hn::Max(hn::Max(a0, a1), hn::Max(a2, a3))));
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
