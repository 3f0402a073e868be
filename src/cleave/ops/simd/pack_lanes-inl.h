// Panels of an operand whose lanes are contiguous in memory: rows are copied, widened or
// interleaved. Included once per instruction set.

#if defined(CLEAVE_OPS_SIMD_PACK_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CLEAVE_OPS_SIMD_PACK_LANES_INL_H_
#undef CLEAVE_OPS_SIMD_PACK_LANES_INL_H_
#else
#define CLEAVE_OPS_SIMD_PACK_LANES_INL_H_
#endif

#include <type_traits>

#include <hwy/cache_control.h>

#include "cleave/ops/simd/pack_transposed-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cleave::ops::HWY_NAMESPACE {

/// What the panels after the next want of a line. Lines are far apart and little is read of each at
/// a time, which processors do not foresee.
template <class T>
HWY_INLINE void prefetch_line(const T* at) {
  constexpr std::size_t kAhead = 256;  // bytes
  hwy::Prefetch(at + kAhead / sizeof(T));
}

#if HWY_TARGET == HWY_SCALAR

/// No vector has several lanes: none is done.
HWY_INLINE std::int64_t pair_vectors(const std::uint16_t*, const std::uint16_t*, std::int64_t,
                                     std::uint32_t*) {
  return 0;
}

template <class T>
HWY_INLINE void copy_halves(const Strip&, std::int64_t, std::uint32_t*) {}
HWY_INLINE void pair_halves(const Strip&, std::int64_t, std::uint32_t*) {}

#else

/// A word for each lane: the half in `even` below the one in `odd`.
template <class D>
HWY_INLINE hn::Vec<D> pair(D d, const std::uint16_t* even, const std::uint16_t* odd) {
  const hn::Rebind<std::uint16_t, D> half;
  const auto low = hn::PromoteTo(d, hn::LoadU(half, even));
  return hn::Or(low, hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(half, odd))));
}

/// As many of `lanes` as come in vectors of four or more; returns their number.
HWY_INLINE std::int64_t pair_vectors(const std::uint16_t* even, const std::uint16_t* odd,
                                     std::int64_t lanes, std::uint32_t* out) {
  const hn::ScalableTag<std::uint32_t> widest;
  constexpr std::int64_t kWidest = hn::MaxLanes(widest);
  std::int64_t lane = 0;
  for (; lane + kWidest <= lanes; lane += kWidest)
    hn::StoreU(pair(widest, even + lane, odd + lane), widest, out + lane);
  for (; lane + 4 <= lanes; lane += 4)
    hn::StoreU(pair(Word4(), even + lane, odd + lane), Word4(), out + lane);
  return lane;
}

/// Two panels of half a vector each, `panel_words` apart: one reading of a line serves both.
template <class T>
HWY_INLINE void copy_halves(const Strip& strip, std::int64_t panel_words, std::uint32_t* panels) {
  const hn::Half<F32> half;
  const T* from = reinterpret_cast<const T*>(strip.at);
  auto* to = reinterpret_cast<float*>(panels);
  for (std::int64_t k = 0; k < strip.depth; ++k) {
    const T* line = from + k * strip.depth_stride;
    prefetch_line(line);
    const Vec lanes = load(line, Whole());
    hn::StoreU(hn::LowerHalf(half, lanes), half, to);
    hn::StoreU(hn::UpperHalf(half, lanes), half, to + panel_words);
    to += kLanes / 2;
  }
}

/// The same of pairs.
HWY_INLINE void pair_halves(const Strip& strip, std::int64_t panel_words, std::uint32_t* panels) {
  const hn::ScalableTag<std::uint32_t> whole;
  const hn::Half<decltype(whole)> half;
  const auto* from = reinterpret_cast<const std::uint16_t*>(strip.at);
  for (std::int64_t k = 0; k + 2 <= strip.depth; k += 2) {
    const std::uint16_t* even = from + k * strip.depth_stride;
    const std::uint16_t* odd = even + strip.depth_stride;
    prefetch_line(even);
    prefetch_line(odd);
    const auto words = pair(whole, even, odd);
    hn::StoreU(hn::LowerHalf(half, words), half, panels);
    hn::StoreU(hn::UpperHalf(half, words), half, panels + panel_words);
    panels += kLanes / 2;
  }
}

#endif

/// Whether copy_lanes() fills the whole width of the panel, with zeros past the lanes.
HWY_INLINE bool fills_panel(std::int64_t lanes, std::int64_t width) {
  return width ==
         static_cast<std::int64_t>(hwy::RoundUpTo(static_cast<std::size_t>(lanes), kLanes));
}

/// The lanes stay as they are.
template <class T>
HWY_INLINE void copy_lanes(const Strip& strip, std::int64_t width, std::uint32_t* panel) {
  const std::int64_t depth = strip.depth;
  const std::int64_t lanes = strip.lanes;
  if (!fills_panel(lanes, width)) {
    // These are the last rows of an a, for which for_vectors would go through a buffer.
    using Words = std::conditional_t<std::is_same_v<T, float>, AsIs, Widened>;
    return copy_words(Words(), strip, {0, lanes}, {0, depth}, width, panel);
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    const T* row = reinterpret_cast<const T*>(strip.at) + k * strip.depth_stride;
    float* step = reinterpret_cast<float*>(panel) + k * width;
    for_vectors(static_cast<std::size_t>(lanes), [=](std::size_t i, auto part) HWY_ATTR {
      store(load(row + i, part), step + i, Whole());
    });
  }
}

/// Two rows of lanes are interleaved into one row of pairs.
HWY_INLINE void pair_lanes(const Strip& strip, std::int64_t width, std::uint32_t* panel) {
  const auto* from = reinterpret_cast<const std::uint16_t*>(strip.at);
  for (std::int64_t step = 0; step < strip.depth / 2; ++step, panel += width) {
    const std::uint16_t* even = from + 2 * step * strip.depth_stride;
    const std::uint16_t* odd = even + strip.depth_stride;
    prefetch_line(even);
    prefetch_line(odd);
    std::int64_t lane = pair_vectors(even, odd, strip.lanes, panel);
    for (; lane < strip.lanes; ++lane) panel[lane] = even[lane] | std::uint32_t{odd[lane]} << 16;
  }
}

/// The last word of each lane when depth is odd: one bf16 and a zero.
HWY_INLINE void pack_odd_end(const Strip& strip, std::int64_t width, std::uint32_t* panel) {
  const auto* halves = reinterpret_cast<const std::uint16_t*>(strip.at);
  const std::int64_t last = strip.depth - 1;
  for (std::int64_t lane = 0; lane < strip.lanes; ++lane) {
    panel[last / 2 * width + lane] = halves[lane * strip.lane_stride + last * strip.depth_stride];
  }
}

/// Two panels of half a vector each, or pieces of them along k.
HWY_INLINE void pack_halves(const Strip& strip, int k_step, std::int64_t panel_words,
                            std::uint32_t* panels) {
  if (k_step == 1) {
    return strip.dtype == DType::BF16 ? copy_halves<BFloat16>(strip, panel_words, panels)
                                      : copy_halves<float>(strip, panel_words, panels);
  }
  pair_halves(strip, panel_words, panels);
  if (strip.depth % 2 == 0) return;
  constexpr std::int64_t kHalf = kLanes / 2;
  Strip one = strip;
  one.lanes = kHalf;
  pack_odd_end(one, kHalf, panels);
  one.at += kHalf * strip.lane_stride * size_of(strip.dtype);
  pack_odd_end(one, kHalf, panels + panel_words);
}

}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
