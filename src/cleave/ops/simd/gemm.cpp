#include "cleave/ops/simd/gemm.h"

#include <algorithm>
#include <bit>

#include "cleave/base/check.h"
#include "cleave/ops/simd/gemm_kernel.h"
#include "cleave/ops/simd/gemm_pack.h"

namespace cleave::ops {
namespace {

// The loops are those of GotoBLAS (Goto and van de Geijn, 2008): a panel of b and a block of a sit
// in the L2 cache together, the block of b in L3, and each is read many times from there.
constexpr std::int64_t kDepth = 1536;            // words along k; a panel of b is 288 KiB at most
constexpr std::int64_t kBlockOfA = 96 * 1024;    // words: 384 KiB
constexpr std::int64_t kBlockOfB = 1024 * 1024;  // words: 4 MiB
constexpr std::int64_t kMaxTile = 8 * 48;
constexpr std::int64_t kPackedRows = 64;  // of a at a time, against a packed b

std::int64_t round_up(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

/// The sizes of the blocks, a function of the problem's shape alone.
struct Blocks {
  std::int64_t depth, rows, columns;  // of k in words, of m, of n

  Blocks(std::int64_t m, std::int64_t n, std::int64_t k, const GemmKernel& kernel) {
    const std::int64_t steps = (k + kernel.k_step - 1) / kernel.k_step;
    const std::int64_t count = std::max<std::int64_t>(1, (steps + kDepth - 1) / kDepth);
    depth = std::max<std::int64_t>(1, (steps + count - 1) / count);
    rows = std::min(round_up(m, kernel.rows), kBlockOfA / depth / kernel.rows * kernel.rows);
    columns = std::min(round_up(n, kernel.lanes),
                       kBlockOfB / depth / kernel.columns() * kernel.columns());
  }
  std::int64_t depth_in_elements(const GemmKernel& kernel) const { return depth * kernel.k_step; }
};

Strip rows_of(const GemmOperand& a, std::int64_t row, std::int64_t k, std::int64_t rows,
              std::int64_t depth) {
  return {a.at + (row * a.row_stride + k * a.column_stride) * size_of(a.dtype),
          a.dtype,
          rows,
          depth,
          a.row_stride,
          a.column_stride};
}

Strip columns_of(const GemmOperand& b, std::int64_t k, std::int64_t column, std::int64_t columns,
                 std::int64_t depth) {
  return {b.at + (k * b.row_stride + column * b.column_stride) * size_of(b.dtype),
          b.dtype,
          columns,
          depth,
          b.column_stride,
          b.row_stride};
}

std::int64_t steps_of(std::int64_t depth, const GemmKernel& kernel) {
  return (depth + kernel.k_step - 1) / kernel.k_step;
}

void pack_rows(const GemmKernel& kernel, const GemmOperand& a, std::int64_t row, std::int64_t k,
               std::int64_t rows, std::int64_t depth, std::uint32_t* to) {
  const std::int64_t steps = steps_of(depth, kernel);
  for (std::int64_t done = 0; done < rows;) {
    const int height = kernel.height(rows - done);
    pack_strip(rows_of(a, row + done, k, height, depth), height, kernel.k_step, to + done * steps);
    done += height;
  }
}

void pack_columns(const GemmKernel& kernel, const GemmOperand& b, std::int64_t k,
                  std::int64_t column, std::int64_t columns, std::int64_t depth,
                  std::uint32_t* to) {
  const std::int64_t steps = steps_of(depth, kernel);
  for (std::int64_t done = 0; done < columns; done += kernel.columns()) {
    const std::int64_t count = std::min<std::int64_t>(kernel.columns(), columns - done);
    pack_strip(columns_of(b, k, column + done, count, depth), round_up(count, kernel.lanes),
               kernel.k_step, to + done * steps);
  }
}

/// A block of rows against a block of packed columns.
struct BlockProduct {
  const GemmKernel& kernel;
  const std::byte* a;
  std::int64_t a_row, a_step;  // in bytes; 0 if packed
  const std::uint32_t* b;
  std::int64_t rows, columns;
  std::int64_t steps;        // of this product
  std::int64_t panel_steps;  // that the panels of b are apart; ≥ steps
  GemmOut out;
};

/// `height` rows against one panel, straight into out where it takes whole vectors of f32.
void multiply_tile(const BlockProduct& block, std::int64_t row, int height, std::int64_t column) {
  const GemmKernel& kernel = block.kernel;
  const std::int64_t columns = std::min<std::int64_t>(kernel.columns(), block.columns - column);
  const std::int64_t width = round_up(columns, kernel.lanes);
  const int shape = std::countr_zero(static_cast<unsigned>(height));
  const std::int64_t vectors = width / kernel.lanes;
  const bool accumulate = block.out.write == Write::Accumulate;
  const bool packed = block.a_row == 0;
  GemmTile tile{.steps = block.steps,
                .a = block.a + row * (packed ? block.steps * 4 : block.a_row),
                .a_row = packed ? 4 : block.a_row,
                .a_step = packed ? height * 4 : block.a_step,
                .b = block.b + column * block.panel_steps,
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

void multiply_block(const BlockProduct& block) {
  for (std::int64_t column = 0; column < block.columns; column += block.kernel.columns()) {
    for (std::int64_t row = 0; row < block.rows;) {
      const int height = block.kernel.height(block.rows - row);
      multiply_tile(block, row, height, column);
      row += height;
    }
  }
}

/// The scratch of gemm(), piece after piece.
struct Pieces {
  std::uint32_t* b;
  std::uint32_t* a;
  float* sums;  // [m, block columns]: where a bf16 out is summed when k takes several blocks
  std::int64_t bytes;
  bool summed;

  Pieces(std::byte* base, const Blocks& blocks, std::int64_t m, std::int64_t k, DType out,
         const GemmKernel& kernel) {
    const std::int64_t b_bytes =
        round_up(round_up(blocks.columns, kernel.lanes) * blocks.depth * 4, 64);
    const std::int64_t a_bytes = round_up(blocks.rows * blocks.depth * 4, 64);
    summed = out == DType::BF16 && blocks.depth_in_elements(kernel) < k;
    b = reinterpret_cast<std::uint32_t*>(base);
    a = reinterpret_cast<std::uint32_t*>(base + b_bytes);
    sums = reinterpret_cast<float*>(base + b_bytes + a_bytes);
    bytes = b_bytes + a_bytes + (summed ? round_up(m * blocks.columns * 4, 64) : 0);
  }
};

/// Where the products of rows from `row` on go while k is taken block by block.
GemmOut out_of_block(const Gemm& product, const Pieces& pieces, std::int64_t row,
                     std::int64_t column, std::int64_t columns, std::int64_t k) {
  GemmOut out = product.out;
  if (pieces.summed) {
    out = {reinterpret_cast<std::byte*>(pieces.sums + row * columns), DType::F32, columns};
  } else {
    out.at += (row * out.stride + column) * size_of(out.dtype);
    if (out.bias) out.bias += column * size_of(out.bias_dtype);
  }
  if (k > 0) {
    out.write = Write::Accumulate;
    out.bias = nullptr;
  }
  return out;
}

void write_sums(const Gemm& product, const Pieces& pieces, std::int64_t column,
                std::int64_t columns) {
  const GemmOut& out = product.out;
  const TileWrite write{.tile = pieces.sums,
                        .tile_stride = columns,
                        .rows = product.m,
                        .columns = columns,
                        .bias = out.bias ? out.bias + column * size_of(out.bias_dtype) : nullptr,
                        .bias_dtype = out.bias_dtype,
                        .out = out.at + column * size_of(out.dtype),
                        .out_dtype = out.dtype,
                        .out_stride = out.stride};
  out.write == Write::Accumulate ? accumulate_tile(write) : write_tile(write);
}

}  // namespace

std::int64_t gemm_scratch_bytes(std::int64_t m, std::int64_t n, std::int64_t k, DType in,
                                DType out) {
  const GemmKernel& kernel = gemm_kernel(in);
  return Pieces(nullptr, Blocks(m, n, k, kernel), m, k, out, kernel).bytes;
}

void gemm(const Gemm& product, std::byte* scratch) {
  const GemmKernel& kernel = gemm_kernel(product.a.dtype);
  const Blocks blocks(product.m, product.n, product.k, kernel);
  const Pieces pieces(scratch, blocks, product.m, product.k, product.out.dtype, kernel);
  const std::int64_t depth = blocks.depth_in_elements(kernel);
  for (std::int64_t column = 0; column < product.n; column += blocks.columns) {
    const std::int64_t columns = std::min(blocks.columns, product.n - column);
    for (std::int64_t k = 0; k < product.k; k += depth) {
      const std::int64_t count = std::min(depth, product.k - k);
      const std::int64_t steps = steps_of(count, kernel);
      pack_columns(kernel, product.b, k, column, columns, count, pieces.b);
      for (std::int64_t row = 0; row < product.m; row += blocks.rows) {
        const std::int64_t rows = std::min(blocks.rows, product.m - row);
        pack_rows(kernel, product.a, row, k, rows, count, pieces.a);
        multiply_block({.kernel = kernel,
                        .a = reinterpret_cast<const std::byte*>(pieces.a),
                        .a_row = 0,
                        .a_step = 0,
                        .b = pieces.b,
                        .rows = rows,
                        .columns = columns,
                        .steps = steps,
                        .panel_steps = steps,
                        .out = out_of_block(product, pieces, row, column, columns, k)});
      }
    }
    if (pieces.summed) write_sums(product, pieces, column, columns);
  }
}

std::int64_t packed_b_bytes(std::int64_t n, std::int64_t k, DType in) {
  const GemmKernel& kernel = gemm_kernel(in);
  return round_up(n, kernel.lanes) * steps_of(k, kernel) * 4;
}

PackedB pack_b(const GemmOperand& b, std::int64_t n, std::int64_t k, std::byte* to) {
  auto* words = reinterpret_cast<std::uint32_t*>(to);
  pack_columns(gemm_kernel(b.dtype), b, 0, 0, n, k, words);
  return {words, n, k};
}

std::int64_t gemm_packed_scratch_bytes(std::int64_t k, DType in) {
  const GemmKernel& kernel = gemm_kernel(in);
  return kPackedRows * steps_of(k, kernel) * 4;
}

void gemm_packed(const Gemm& product, const PackedB& b, std::byte* scratch) {
  const GemmKernel& kernel = gemm_kernel(product.a.dtype);
  CLEAVE_CHECK(product.k <= b.k && (product.n % kernel.columns() == 0 || product.n == b.n),
               product.n, " columns of ", b.n, ", depth ", product.k, " of ", b.k);
  BlockProduct block{.kernel = kernel,
                     .a = product.a.at,
                     .a_row = product.a.row_stride * size_of(product.a.dtype),
                     .a_step = product.a.column_stride * 4,
                     .b = b.words,
                     .rows = product.m,
                     .columns = product.n,
                     .steps = steps_of(product.k, kernel),
                     .panel_steps = steps_of(b.k, kernel),
                     .out = product.out};
  // Words of f32 can be read where they are, and so can pairs of bf16 that are neighbours in
  // memory.
  const bool widened = product.a.dtype == DType::BF16 && kernel.k_step == 1;
  const bool in_place =
      !widened &&
      (kernel.k_step == 1 || (product.a.column_stride == 1 && product.k % kernel.k_step == 0));
  if (in_place) return multiply_block(block);
  block.a_row = 0;
  block.a = scratch;
  for (std::int64_t row = 0; row < product.m; row += block.rows) {
    block.rows = std::min<std::int64_t>(product.m - row, kPackedRows);
    pack_rows(kernel, product.a, row, 0, block.rows, product.k,
              reinterpret_cast<std::uint32_t*>(scratch));
    block.out.at = product.out.at + row * product.out.stride * size_of(product.out.dtype);
    multiply_block(block);
  }
}

std::int64_t gemm_columns(DType in) {
  return gemm_kernel(in).columns();
}

std::int64_t gemm_rows(DType in) {
  return gemm_kernel(in).rows;
}

}  // namespace cleave::ops
