#include "cleave/ops/simd/gemm_block.h"

#include <algorithm>
#include <bit>

#include "cleave/ops/simd/gemm_pack.h"
#include "cleave/ops/simd/tile_write.h"

namespace cleave::ops {
namespace {

constexpr std::int64_t kMaxTile = 8 * 48;

/// `height` rows against one panel, straight into out where it takes whole vectors of f32.
void multiply_tile(const GemmBlock& block, std::int64_t row, int height, std::int64_t column) {
  const GemmKernel& kernel = block.kernel;
  const std::int64_t columns = std::min<std::int64_t>(kernel.columns(), block.columns - column);
  const std::int64_t width = round_up(columns, kernel.lanes);
  const int shape = std::countr_zero(static_cast<unsigned>(height));
  const std::int64_t vectors = width / kernel.lanes;
  const bool accumulate = block.out.write == Write::Accumulate;
  const bool packed = block.a.kind == GemmRows::Kind::Packed;
  GemmTile tile{.steps = block.steps,
                .a = block.a.at + row * (packed ? block.steps * 4 : block.a.row),
                .a_row = packed ? 4 : block.a.row,
                .a_step = packed ? height * 4 : block.a.step,
                .b = block.b + column * block.panel_steps + block.first_step * width,
                .out = nullptr,
                .stride = block.out.stride};
  std::byte* out = block.out.at + (row * block.out.stride + column) * size_of(block.out.dtype);
  if (block.out.dtype == DType::F32 && !block.out.bias && width == columns) {
    const auto& run = accumulate ? kernel.accumulate : kernel.overwrite;
    tile.out = reinterpret_cast<float*>(out);
    run[shape][vectors - 1](tile);
    return;
  }
  alignas(64) float values[kMaxTile];
  tile.out = values;
  tile.stride = width;
  kernel.overwrite[shape][vectors - 1](tile);
  const TileWrite write{
      .tile = values,
      .tile_stride = width,
      .rows = height,
      .columns = columns,
      .bias = block.out.bias ? block.out.bias + column * size_of(block.out.bias_dtype) : nullptr,
      .bias_dtype = block.out.bias_dtype,
      .out = out,
      .out_dtype = block.out.dtype,
      .out_stride = block.out.stride};
  accumulate ? accumulate_tile(write) : write_tile(write);
}

}  // namespace

void multiply_block(const GemmBlock& block) {
  for (std::int64_t column = 0; column < block.columns; column += block.kernel.columns()) {
    for (std::int64_t row = 0; row < block.rows;) {
      const int height = block.kernel.height(block.rows - row);
      multiply_tile(block, row, height, column);
      row += height;
    }
  }
}

GemmOperand part_of(GemmOperand operand, std::int64_t row, std::int64_t column) {
  operand.at +=
      (row * operand.row_stride + column * operand.column_stride) * size_of(operand.dtype);
  return operand;
}

GemmRows pack_rows(const GemmKernel& kernel, const GemmOperand& a, std::int64_t rows,
                   std::int64_t depth, std::byte* to) {
  const std::int64_t steps = steps_of(depth, kernel);
  auto* words = reinterpret_cast<std::uint32_t*>(to);
  for (std::int64_t row = 0; row < rows;) {
    const int height = kernel.height(rows - row);
    const std::int64_t count = (rows - row) / height * height;
    const Strip strip{part_of(a, row, 0).at, a.dtype, count, depth, a.row_stride, a.column_stride};
    pack_panels(strip, height, kernel.k_step, words + row * steps);
    row += count;
  }
  return {to, 0, 0, GemmRows::Kind::Packed};
}

void pack_columns(const GemmKernel& kernel, const GemmOperand& b, std::int64_t columns,
                  std::int64_t depth, std::uint32_t* to) {
  const auto pack = [&](std::int64_t column, std::int64_t count, std::int64_t width) {
    const Strip strip{part_of(b, 0, column).at, b.dtype,     count, depth,
                      b.column_stride,          b.row_stride};
    pack_panels(strip, width, kernel.k_step, to + column * steps_of(depth, kernel));
  };
  const std::int64_t whole = columns / kernel.columns() * kernel.columns();
  const std::int64_t rest = columns - whole;
  if (whole > 0) pack(0, whole, kernel.columns());
  if (rest > 0) pack(whole, rest, round_up(rest, kernel.lanes));
}

}  // namespace cleave::ops
