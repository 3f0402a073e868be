#include "cleave/ops/simd/gemm_pack.h"

#include <algorithm>
#include <cstring>

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

#if HWY_TARGET == HWY_SCALAR

template <class Words>
HWY_INLINE void transpose4(const std::byte* at, std::int64_t lane_bytes, std::int64_t width,
                           std::uint32_t* panel) {
  for (int step = 0; step < 4; ++step) {
    for (int lane = 0; lane < 4; ++lane) {
      panel[step * width + lane] = Words::load(at + lane * lane_bytes + step * Words::kBytes);
    }
  }
}

HWY_INLINE void pair8(const std::uint16_t* even, const std::uint16_t* odd, std::uint16_t* out) {
  for (int lane = 0; lane < 8; ++lane) {
    out[2 * lane] = even[lane];
    out[2 * lane + 1] = odd[lane];
  }
}

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

/// Four lanes, four steps: a 4 × 4 transposition.
template <class Words>
HWY_INLINE void transpose4(const std::byte* at, std::int64_t lane_bytes, std::int64_t width,
                           std::uint32_t* panel) {
  const Word4 d;
  const hn::Repartition<std::uint64_t, Word4> wide;
  const auto r0 = load4(at, Words());
  const auto r1 = load4(at + lane_bytes, Words());
  const auto r2 = load4(at + 2 * lane_bytes, Words());
  const auto r3 = load4(at + 3 * lane_bytes, Words());
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

#endif

/// k is contiguous in memory: the panel is the transposed strip. `steps` whole words of each lane.
template <class Words>
HWY_INLINE void transpose_lanes(const Strip& strip, std::int64_t steps, std::int64_t width,
                                std::uint32_t* panel) {
  const std::int64_t lane_bytes = strip.lane_stride * size_of(strip.dtype);
  std::int64_t lane = 0;
  for (; lane + 4 <= strip.lanes; lane += 4) {
    const std::byte* at = strip.at + lane * lane_bytes;
    std::int64_t step = 0;
    for (; step + 4 <= steps; step += 4) {
      transpose4<Words>(at + step * Words::kBytes, lane_bytes, width, panel + step * width + lane);
    }
    for (; step < steps; ++step) {
      for (int i = 0; i < 4; ++i) {
        panel[step * width + lane + i] = Words::load(at + i * lane_bytes + step * Words::kBytes);
      }
    }
  }
  for (; lane < strip.lanes; ++lane) {
    for (std::int64_t step = 0; step < steps; ++step) {
      panel[step * width + lane] = Words::load(strip.at + lane * lane_bytes + step * Words::kBytes);
    }
  }
}

/// Fewer words than a vector has, as the rows of a: where for_vectors would go through a buffer.
HWY_INLINE void copy_few(const float* from, std::int64_t count, float* to) {
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) std::memcpy(to + i, from + i, 16);
  for (; i < count; ++i) to[i] = from[i];
}
HWY_INLINE void copy_few(const BFloat16* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t word = std::uint32_t{from[i].bits} << 16;
    std::memcpy(to + i, &word, 4);
  }
}

/// Whether copy_lanes() fills the whole width of the panel, with zeros past the lanes.
HWY_INLINE bool fills_panel(std::int64_t lanes, std::int64_t width) {
  return width ==
         static_cast<std::int64_t>(hwy::RoundUpTo(static_cast<std::size_t>(lanes), kLanes));
}

/// The lanes are contiguous in memory and so they stay.
template <class T>
HWY_INLINE void copy_lanes(const Strip& strip, std::int64_t width, std::uint32_t* panel) {
  const T* from = reinterpret_cast<const T*>(strip.at);
  auto* to = reinterpret_cast<float*>(panel);
  const std::int64_t depth = strip.depth;
  const std::int64_t lanes = strip.lanes;
  const std::int64_t stride = strip.depth_stride;
  if (!fills_panel(lanes, width)) {
    for (std::int64_t k = 0; k < depth; ++k) copy_few(from + k * stride, lanes, to + k * width);
    return;
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    const T* row = from + k * stride;
    float* step = to + k * width;
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
  // Piece by piece along k, so that lines of the operand serve all panels that want a part of them:
  // few rows where the lanes are contiguous, some lines of each lane where k is.
  const std::int64_t piece = strip.depth_stride == 1 ? 256 : 16;
  const std::int64_t size = size_of(strip.dtype);
  for (std::int64_t k = 0; k < strip.depth; k += piece) {
    for (std::int64_t lane = 0; lane < strip.lanes; lane += width) {
      Strip part = strip;
      part.at += (k * strip.depth_stride + lane * strip.lane_stride) * size;
      part.depth = std::min(piece, strip.depth - k);
      part.lanes = std::min(width, strip.lanes - lane);
      pack_panel(part, width, k_step, panels + lane * steps + k / k_step * width);
    }
  }
}

enum class Tile { Overwrite, Accumulate };

template <Tile kTile>
void finish_tile(const TileWrite& write) {
  with_element(write.out_dtype, [&](auto out_element) HWY_ATTR {
    with_element(write.bias_dtype, [&](auto bias_element) HWY_ATTR {
      using Out = decltype(out_element);
      const auto* bias = reinterpret_cast<const decltype(bias_element)*>(write.bias);
      for (std::int64_t row = 0; row < write.rows; ++row) {
        const float* tile = write.tile + row * write.tile_stride;
        Out* out = reinterpret_cast<Out*>(write.out) + row * write.out_stride;
        for_vectors(static_cast<std::size_t>(write.columns),
                    [=](std::size_t i, auto part) HWY_ATTR {
                      Vec value = load(tile + i, part);
                      if (bias) value = hn::Add(value, load(bias + i, part));
                      if constexpr (kTile == Tile::Accumulate) {
                        value = hn::Add(load(out + i, part), value);
                      }
                      store(value, out + i, part);
                    });
      }
    });
  });
}

void write_tile(const TileWrite& write) {
  finish_tile<Tile::Overwrite>(write);
}

void accumulate_tile(const TileWrite& write) {
  finish_tile<Tile::Accumulate>(write);
}

}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cleave::ops {

HWY_EXPORT(pack_panels);
HWY_EXPORT(write_tile);
HWY_EXPORT(accumulate_tile);

void pack_panels(const Strip& strip, std::int64_t width, int k_step, std::uint32_t* panels) {
  HWY_DYNAMIC_DISPATCH(pack_panels)(strip, width, k_step, panels);
}

void write_tile(const TileWrite& write) {
  HWY_DYNAMIC_DISPATCH(write_tile)(write);
}

void accumulate_tile(const TileWrite& write) {
  HWY_DYNAMIC_DISPATCH(accumulate_tile)(write);
}

}  // namespace cleave::ops
#endif
