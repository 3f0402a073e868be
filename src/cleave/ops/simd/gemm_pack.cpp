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

/// k is contiguous in memory: the panel is the transposed strip.
template <class Words>
void pack_along_k(const Strip& strip, std::int64_t steps, std::int64_t width,
                  std::uint32_t* panel) {
  const std::int64_t lane_bytes = strip.lane_stride * size_of(strip.dtype);
  const std::int64_t quads = strip.lanes / 4 * 4;
  std::int64_t step = 0;
  for (; step + 4 <= steps; step += 4) {
    const std::byte* at = strip.at + step * Words::kBytes;
    for (std::int64_t lane = 0; lane < quads; lane += 4) {
      transpose4<Words>(at + lane * lane_bytes, lane_bytes, width, panel + step * width + lane);
    }
  }
  const auto one = [&](std::int64_t s, std::int64_t lane) {
    panel[s * width + lane] = Words::load(strip.at + lane * lane_bytes + s * Words::kBytes);
  };
  for (std::int64_t s = step; s < steps; ++s) {
    for (std::int64_t lane = 0; lane < quads; ++lane) one(s, lane);
  }
  for (std::int64_t lane = quads; lane < strip.lanes; ++lane) {
    for (std::int64_t s = 0; s < steps; ++s) one(s, lane);
  }
}

/// The last word of each lane when depth is odd: one bf16 and a zero.
void pack_odd_end(const Strip& strip, std::int64_t width, std::uint32_t* panel) {
  const auto* halves = reinterpret_cast<const std::uint16_t*>(strip.at);
  const std::int64_t last = strip.depth - 1;
  for (std::int64_t lane = 0; lane < strip.lanes; ++lane) {
    panel[last / 2 * width + lane] = halves[lane * strip.lane_stride + last * strip.depth_stride];
  }
}

/// The lanes are contiguous in memory and so they stay.
void copy_lanes(const Strip& strip, std::int64_t width, std::uint32_t* panel) {
  for (std::int64_t k = 0; k < strip.depth; ++k) {
    std::memcpy(panel + k * width, strip.at + k * strip.depth_stride * 4,
                static_cast<std::size_t>(strip.lanes) * 4);
  }
}

void widen_lanes(const Strip& strip, std::int64_t width, std::uint32_t* panel) {
  const auto* from = reinterpret_cast<const BFloat16*>(strip.at);
  auto* to = reinterpret_cast<float*>(panel);
  for (std::int64_t k = 0; k < strip.depth; ++k) {
    const BFloat16* row = from + k * strip.depth_stride;
    float* step = to + k * width;
    for_vectors(static_cast<std::size_t>(strip.lanes), [=](std::size_t i, auto part) HWY_ATTR {
      store(load(row + i, part), step + i, part);
    });
  }
}

/// The lanes are contiguous; two rows of them are interleaved into one row of pairs.
void pair_lanes(const Strip& strip, std::int64_t width, std::uint32_t* panel) {
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

void pack_strip(const Strip& strip, std::int64_t width, int k_step, std::uint32_t* panel) {
  const std::int64_t steps = (strip.depth + k_step - 1) / k_step;
  if (strip.lanes < width) {
    for (std::int64_t step = 0; step < steps; ++step) {
      std::fill(panel + step * width + strip.lanes, panel + (step + 1) * width, 0u);
    }
  }
  const bool widen = strip.dtype == DType::BF16 && k_step == 1;
  if (strip.depth_stride == 1) {
    if (widen) return pack_along_k<Widened>(strip, steps, width, panel);
    pack_along_k<AsIs>(strip, strip.depth / k_step, width, panel);
  } else if (widen) {
    widen_lanes(strip, width, panel);
  } else if (k_step == 1) {
    copy_lanes(strip, width, panel);
  } else {
    pair_lanes(strip, width, panel);
  }
  if (strip.depth % k_step != 0) pack_odd_end(strip, width, panel);
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

HWY_EXPORT(pack_strip);
HWY_EXPORT(write_tile);
HWY_EXPORT(accumulate_tile);

void pack_strip(const Strip& strip, std::int64_t width, int k_step, std::uint32_t* panel) {
  HWY_DYNAMIC_DISPATCH(pack_strip)(strip, width, k_step, panel);
}

void write_tile(const TileWrite& write) {
  HWY_DYNAMIC_DISPATCH(write_tile)(write);
}

void accumulate_tile(const TileWrite& write) {
  HWY_DYNAMIC_DISPATCH(accumulate_tile)(write);
}

}  // namespace cleave::ops
#endif
