// Panels of an operand whose k is contiguous in memory: a transposition. Included once per
// instruction set.

#if defined(CLEAVE_OPS_SIMD_PACK_TRANSPOSED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CLEAVE_OPS_SIMD_PACK_TRANSPOSED_INL_H_
#undef CLEAVE_OPS_SIMD_PACK_TRANSPOSED_INL_H_
#else
#define CLEAVE_OPS_SIMD_PACK_TRANSPOSED_INL_H_
#endif

#include <cstring>

#include "cleave/ops/simd/gemm_pack.h"
#include "cleave/ops/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cleave::ops::HWY_NAMESPACE {

// How words come out of memory when k is contiguous: as they are (an f32, a pair of bf16), or one
// bf16 widened to an f32.
struct AsIs {
  static constexpr std::int64_t kBytes = 4;
  static HWY_INLINE std::uint32_t load(const std::byte* at) {
    std::uint32_t word;
    std::memcpy(&word, at, 4);
    return word;
  }
};
struct Widened {
  static constexpr std::int64_t kBytes = 2;
  static HWY_INLINE std::uint32_t load(const std::byte* at) {
    std::uint16_t half;
    std::memcpy(&half, at, 2);
    return std::uint32_t{half} << 16;
  }
};

struct Range {
  std::int64_t begin, end;
};

/// Word by word: what is too few for a vector.
template <class Words>
HWY_INLINE void copy_words(Words, const Strip& strip, Range lanes, Range steps, std::int64_t width,
                           std::uint32_t* panel) {
  for (std::int64_t lane = lanes.begin; lane < lanes.end; ++lane) {
    const std::byte* at = strip.at + lane * strip.lane_stride * size_of(strip.dtype);
    for (std::int64_t step = steps.begin; step < steps.end; ++step) {
      panel[step * width + lane] = Words::load(at + step * strip.depth_stride * Words::kBytes);
    }
  }
}

#if HWY_TARGET == HWY_SCALAR

/// No vector has several lanes: none is done.
template <class Words>
HWY_INLINE std::int64_t transpose_vectors(const Strip&, std::int64_t, std::int64_t,
                                          std::uint32_t*) {
  return 0;
}

#else

using Word4 = hn::FixedTag<std::uint32_t, 4>;

HWY_INLINE hn::Vec<Word4> load4(const std::byte* at, AsIs) {
  return hn::LoadU(Word4(), reinterpret_cast<const std::uint32_t*>(at));
}

HWY_INLINE hn::Vec<Word4> load4(const std::byte* at, Widened) {
  const hn::FixedTag<std::uint16_t, 4> half;
  const auto halves = hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(at));
  return hn::ShiftLeft<16>(hn::PromoteTo(Word4(), halves));
}

/// Words of lanes that are four apart, block by block: of lanes 0, 4, 8, … for the first.
template <class D, class Words>
HWY_INLINE hn::Vec<D> load_blocks(D d, const std::byte* at, std::int64_t lane_bytes, Words words) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return load4(at, words);
  } else {
    const hn::Half<D> half;
    constexpr std::int64_t kLanesOfHalf = hn::MaxLanes(half);
    return hn::Combine(d, load_blocks(half, at + kLanesOfHalf * lane_bytes, lane_bytes, words),
                       load_blocks(half, at, lane_bytes, words));
  }
}

/// As many lanes as D has, four steps: a 4 × 4 transposition in every block of 128 bits.
template <class D, class Words>
HWY_INLINE void transpose(D d, Words words, const std::byte* at, std::int64_t lane_bytes,
                          std::int64_t width, std::uint32_t* panel) {
  const hn::Repartition<std::uint64_t, D> wide;
  const auto r0 = load_blocks(d, at, lane_bytes, words);
  const auto r1 = load_blocks(d, at + lane_bytes, lane_bytes, words);
  const auto r2 = load_blocks(d, at + 2 * lane_bytes, lane_bytes, words);
  const auto r3 = load_blocks(d, at + 3 * lane_bytes, lane_bytes, words);
  const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, low01, low23)), d, panel);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23)), d, panel + width);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, high01, high23)), d, panel + 2 * width);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23)), d, panel + 3 * width);
}

/// Whole groups of lanes from `lane` on, as many in each as D has; returns the first lane left.
template <class D, class Words>
HWY_INLINE std::int64_t transpose_groups(D d, Words words, std::int64_t lane, const Strip& strip,
                                         std::int64_t steps, std::int64_t width,
                                         std::uint32_t* panel) {
  constexpr std::int64_t kGroup = hn::MaxLanes(D());
  const std::int64_t lane_bytes = strip.lane_stride * size_of(strip.dtype);
  for (; lane + kGroup <= strip.lanes; lane += kGroup) {
    const std::byte* at = strip.at + lane * lane_bytes;
    std::int64_t step = 0;
    for (; step + 4 <= steps; step += 4) {
      transpose(d, words, at + step * Words::kBytes, lane_bytes, width,
                panel + step * width + lane);
    }
    copy_words(words, strip, {lane, lane + kGroup}, {step, steps}, width, panel);
  }
  return lane;
}

/// As many lanes as come in vectors of four or more; returns their number.
template <class Words>
HWY_INLINE std::int64_t transpose_vectors(const Strip& strip, std::int64_t steps,
                                          std::int64_t width, std::uint32_t* panel) {
  const hn::ScalableTag<std::uint32_t> widest;
  const auto lane = transpose_groups(widest, Words(), 0, strip, steps, width, panel);
  return transpose_groups(Word4(), Words(), lane, strip, steps, width, panel);
}

#endif

/// k is contiguous in memory: the panel is the transposed strip. `steps` whole words of each lane.
template <class Words>
HWY_INLINE void transpose_lanes(const Strip& strip, std::int64_t steps, std::int64_t width,
                                std::uint32_t* panel) {
  const std::int64_t done = transpose_vectors<Words>(strip, steps, width, panel);
  copy_words(Words(), strip, {done, strip.lanes}, {0, steps}, width, panel);
}

}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
