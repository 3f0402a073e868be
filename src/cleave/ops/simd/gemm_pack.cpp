#include "cleave/ops/simd/gemm_pack.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cleave/ops/simd/gemm_pack.cpp"
#include <hwy/foreach_target.h>

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

HWY_INLINE void pair8(const std::uint16_t* even, const std::uint16_t* odd, std::uint16_t* out) {
  for (int lane = 0; lane < 8; ++lane) {
    out[2 * lane] = even[lane];
    out[2 * lane + 1] = odd[lane];
  }
}

template <class T>
HWY_INLINE void copy_halves(const Strip&, std::int64_t, std::uint32_t*) {}

#else

using Word4 = hn::FixedTag<std::uint32_t, 4>;
using Half8 = hn::FixedTag<std::uint16_t, 8>;

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

HWY_INLINE void pair8(const std::uint16_t* even, const std::uint16_t* odd, std::uint16_t* out) {
  const auto low = hn::LoadU(Half8(), even);
  const auto high = hn::LoadU(Half8(), odd);
  hn::StoreU(hn::InterleaveLower(Half8(), low, high), Half8(), out);
  hn::StoreU(hn::InterleaveUpper(Half8(), low, high), Half8(), out + 8);
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

/// Two panels of half a vector each, `panel_words` apart: one reading of a line serves both.
template <class T>
HWY_INLINE void copy_halves(const Strip& strip, std::int64_t panel_words, std::uint32_t* panels) {
  const hn::Half<F32> half;
  const T* from = reinterpret_cast<const T*>(strip.at);
  auto* to = reinterpret_cast<float*>(panels);
  for (std::int64_t k = 0; k < strip.depth; ++k) {
    const Vec lanes = load(from + k * strip.depth_stride, Whole());
    hn::StoreU(hn::LowerHalf(half, lanes), half, to);
    hn::StoreU(hn::UpperHalf(half, lanes), half, to + panel_words);
    to += kLanes / 2;
  }
}

#endif

/// k is contiguous in memory: the panel is the transposed strip. `steps` whole words of each lane.
template <class Words>
HWY_INLINE void transpose_lanes(const Strip& strip, std::int64_t steps, std::int64_t width,
                                std::uint32_t* panel) {
  const std::int64_t done = transpose_vectors<Words>(strip, steps, width, panel);
  copy_words(Words(), strip, {done, strip.lanes}, {0, steps}, width, panel);
}

/// Whether copy_lanes() fills the whole width of the panel, with zeros past the lanes.
HWY_INLINE bool fills_panel(std::int64_t lanes, std::int64_t width) {
  return width ==
         static_cast<std::int64_t>(hwy::RoundUpTo(static_cast<std::size_t>(lanes), kLanes));
}

/// The lanes are contiguous in memory and so they stay.
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

/// The lanes are contiguous; two rows of them are interleaved into one row of pairs.
HWY_INLINE void pair_lanes(const Strip& strip, std::int64_t width, std::uint32_t* panel) {
  const auto* from = reinterpret_cast<const std::uint16_t*>(strip.at);
  for (std::int64_t pair = 0; pair < strip.depth / 2; ++pair) {
    const std::uint16_t* even = from + 2 * pair * strip.depth_stride;
    const std::uint16_t* odd = even + strip.depth_stride;
    auto* out = reinterpret_cast<std::uint16_t*>(panel + pair * width);
    std::int64_t lane = 0;
    for (; lane + 8 <= strip.lanes; lane += 8) pair8(even + lane, odd + lane, out + 2 * lane);
    for (; lane < strip.lanes; ++lane) {
      out[2 * lane] = even[lane];
      out[2 * lane + 1] = odd[lane];
    }
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

/// One panel, or a piece of it along k.
HWY_INLINE void pack_panel(const Strip& strip, std::int64_t width, int k_step,
                           std::uint32_t* panel) {
  const bool widen = strip.dtype == DType::BF16 && k_step == 1;
  if (strip.depth_stride == 1) {
    if (widen) return transpose_lanes<Widened>(strip, strip.depth, width, panel);
    transpose_lanes<AsIs>(strip, strip.depth / k_step, width, panel);
  } else if (widen) {
    copy_lanes<BFloat16>(strip, width, panel);
  } else if (k_step == 1) {
    copy_lanes<float>(strip, width, panel);
  } else {
    pair_lanes(strip, width, panel);
  }
  if (strip.depth % k_step != 0) pack_odd_end(strip, width, panel);
}

/// Zeros in the lanes of the last panel that the strip has not, unless they come with its copy.
HWY_INLINE void clear_rest(const Strip& strip, std::int64_t width, int k_step,
                           std::uint32_t* panels) {
  const std::int64_t steps = (strip.depth + k_step - 1) / k_step;
  const std::int64_t lanes = strip.lanes % width;
  const bool copied = strip.depth_stride != 1 && k_step == 1;
  if (lanes == 0 || (copied && fills_panel(lanes, width))) return;
  std::uint32_t* panel = panels + strip.lanes / width * steps * width;
  for (std::int64_t step = 0; step < steps; ++step, panel += width) {
    for (std::int64_t lane = lanes; lane < width; ++lane) panel[lane] = 0;
  }
}

void pack_panels(const Strip& strip, std::int64_t width, int k_step, std::uint32_t* panels) {
  const std::int64_t steps = (strip.depth + k_step - 1) / k_step;
  if (strip.lanes == 0) return;
  clear_rest(strip, width, k_step, panels);
  const auto vector = static_cast<std::int64_t>(kLanes);
  const bool halves = strip.depth_stride != 1 && k_step == 1 && 2 * width == vector;
  // Piece by piece along k, so that lines of the operand serve all panels that want a part of them:
  // few rows where the lanes are contiguous, some lines of each lane where k is.
  const std::int64_t piece = strip.depth_stride == 1 ? 256 : 16;
  for (std::int64_t k = 0; k < strip.depth; k += piece) {
    const auto part = [&](std::int64_t lane, std::int64_t lanes) {
      Strip some = strip;
      some.at += (k * strip.depth_stride + lane * strip.lane_stride) * size_of(strip.dtype);
      some.depth = std::min(piece, strip.depth - k);
      some.lanes = lanes;
      return some;
    };
    std::int64_t lane = 0;
    for (; halves && lane + vector <= strip.lanes; lane += vector) {
      std::uint32_t* to = panels + lane * steps + k * width;
      strip.dtype == DType::BF16 ? copy_halves<BFloat16>(part(lane, vector), steps * width, to)
                                 : copy_halves<float>(part(lane, vector), steps * width, to);
    }
    for (; lane < strip.lanes; lane += width) {
      pack_panel(part(lane, std::min(width, strip.lanes - lane)), width, k_step,
                 panels + lane * steps + k / k_step * width);
    }
  }
}

}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cleave::ops {

HWY_EXPORT(pack_panels);

void pack_panels(const Strip& strip, std::int64_t width, int k_step, std::uint32_t* panels) {
  HWY_DYNAMIC_DISPATCH(pack_panels)(strip, width, k_step, panels);
}

}  // namespace cleave::ops
#endif
