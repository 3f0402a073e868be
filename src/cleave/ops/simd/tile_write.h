#pragma once

#include <cstddef>
#include <cstdint>

#include "cleave/spec/dtype.h"

namespace cleave::ops {

/// What becomes of a finished tile on its way to memory.
struct TileWrite {
  const float* tile;  ///< [rows][tile_stride]
  std::int64_t tile_stride;
  std::int64_t rows, columns;
  const std::byte* bias;  ///< [columns], or null
  DType bias_dtype;
  std::byte* out;  ///< [rows], `out_stride` elements apart
  DType out_dtype;
  std::int64_t out_stride;
};

/// out = tile + bias, or out += tile + bias.
void write_tile(const TileWrite& write);
void accumulate_tile(const TileWrite& write);

}  // namespace cleave::ops
