#include "cleave/ops/simd/tile_write.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cleave/ops/simd/tile_write.cpp"
#include <hwy/foreach_target.h>

#include "cleave/ops/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cleave::ops::HWY_NAMESPACE {

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

HWY_EXPORT(write_tile);
HWY_EXPORT(accumulate_tile);

void write_tile(const TileWrite& write) {
  HWY_DYNAMIC_DISPATCH(write_tile)(write);
}

void accumulate_tile(const TileWrite& write) {
  HWY_DYNAMIC_DISPATCH(accumulate_tile)(write);
}

}  // namespace cleave::ops
#endif
