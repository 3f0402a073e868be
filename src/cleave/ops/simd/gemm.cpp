#include "cleave/ops/simd/gemm.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/ops/simd/cache_sizes.h"
#include "cleave/ops/simd/gemm_block.h"
#include "cleave/ops/simd/tile_write.h"

namespace cleave::ops {
namespace {

// The loops are those of GotoBLAS (Goto and van de Geijn, 2008): a panel of b and a block of a sit
// in the L2 cache together, the block of b in L3 or memory, and each is read many times from there.
//
// The depth is not the machine's to choose: it is where an element's chain along k is cut.
constexpr std::int64_t kDepth = 1536;            // words along k; a panel of b ≤ 288 KiB
constexpr std::int64_t kBlockOfA = 96 * 1024;    // words, at most: 384 KiB
constexpr std::int64_t kBlockOfB = 1024 * 1024;  // words, at most: 4 MiB
constexpr std::int64_t kPackedRows = 64;         // of a at a time, against a packed b

constexpr std::int64_t kMostLanes = 16;  // of a vector of f32; columns are packed in whole vectors

/// What blocks do not exceed on any processor that has the kernel's bits, so that a plan made on
/// one holds on all: with the widest vectors. Where a product takes several blocks, they end where
/// every kernel's panels do.
struct MostOfABlock {
  std::int64_t steps, rows, columns;
  bool cut;  // along k

  MostOfABlock(std::int64_t m, std::int64_t n, std::int64_t k, const GemmKernel& kernel) {
    const std::int64_t all = std::max<std::int64_t>(1, steps_of(k, kernel));
    const std::int64_t count = (all + kDepth - 1) / kDepth;
    steps = (all + count - 1) / count;
    rows = std::min(std::max<std::int64_t>(m, 1), kBlockOfA / steps / kGemmRows * kGemmRows);
    columns = std::min(round_up(std::max<std::int64_t>(n, 1), kMostLanes),
                       kBlockOfB / steps / kGemmColumns * kGemmColumns);
    cut = count > 1;
  }
};

/// `count` in whole panels, of which there is one at least.
std::int64_t whole(std::int64_t count, std::int64_t panel) {
  return std::max(count / panel, std::int64_t{1}) * panel;
}

/// The sizes of the blocks, a function of the problem's shape, the kernel and the machine's caches.
/// Only the depth decides bits.
struct Blocks {
  std::int64_t depth;  // of k, in elements
  std::int64_t rows, columns;

  Blocks(const MostOfABlock& most, std::int64_t n, GemmRows::Kind a, const GemmKernel& kernel) {
    depth = most.steps * kernel.k_step;
    // A block of a takes three quarters of the L2 cache, one of b an eighth of the last: every
    // block of a has all of b read again, from a cache that may be slow, and every block of b all
    // of a. Blocks of b are of one size, and what they leave of the scratch is a's.
    const std::int64_t a_words = cache_sizes().second * 3 / 4 / 4;
    const std::int64_t b_words = cache_sizes().last / 8 / 4;
    columns = std::min(whole(b_words / most.steps, kernel.columns()), most.columns);
    const std::int64_t count = (n + columns - 1) / columns;
    columns = std::min(round_up((n + count - 1) / count, kernel.columns()), columns);
    rows = whole(a_words / most.steps, kernel.rows);
    if (a == GemmRows::Kind::Packed) rows = std::min(rows, most.rows + most.columns - columns);
  }
};

/// The scratch of gemm(), piece after piece.
struct Pieces {
  std::uint32_t* b;
  std::byte* a;
  float* sums;  // [m, block columns] of a bf16 out whose k takes several blocks; else null
  std::int64_t bytes;

  Pieces(std::byte* base, const MostOfABlock& most, std::int64_t columns, std::int64_t m,
         DType out) {
    const std::int64_t packed = round_up((most.rows + most.columns) * most.steps * 4, 64);
    const bool summed = out == DType::BF16 && most.cut;
    b = reinterpret_cast<std::uint32_t*>(base);
    a = base + columns * most.steps * 4;
    sums = summed ? reinterpret_cast<float*>(base + packed) : nullptr;
    bytes = packed + (summed ? round_up(m * most.columns * 4, 64) : 0);
  }
};

/// Where the products of rows from `row` on go while k is taken block by block.
GemmOut out_of_block(const Gemm& product, float* sums, std::int64_t row, std::int64_t column,
                     std::int64_t columns, std::int64_t k) {
  GemmOut out = product.out;
  if (sums != nullptr) {
    out = {reinterpret_cast<std::byte*>(sums + row * columns), DType::F32, columns};
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

void write_sums(const Gemm& product, const float* sums, std::int64_t column, std::int64_t columns) {
  const GemmOut& out = product.out;
  const TileWrite write{.tile = sums,
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

enum class Transposed { Refuse, Accept };

/// True if the kernel can read a where it is: an f32 is a word, and so are two bf16 that are
/// neighbours along k. The words of a transposed a lie far apart, which suits small blocks only.
bool readable_in_place(const GemmKernel& kernel, const GemmOperand& a, std::int64_t k,
                       Transposed transposed) {
  if (a.dtype == DType::BF16 && kernel.k_step == 1) return false;
  if (a.column_stride == 1) return k % kernel.k_step == 0;
  return transposed == Transposed::Accept && a.dtype == DType::F32;
}

GemmRows in_place(const GemmOperand& a) {
  const std::int64_t step = a.column_stride == 1 ? 4 : a.column_stride * size_of(a.dtype);
  return {a.at, a.row_stride * size_of(a.dtype), step, GemmRows::Kind::InPlace};
}

}  // namespace

std::int64_t gemm_scratch_bytes(const GemmKernel& kernel, std::int64_t m, std::int64_t n,
                                std::int64_t k, DType out) {
  const MostOfABlock most(m, n, k, kernel);
  return Pieces(nullptr, most, most.columns, m, out).bytes;
}

bool packs_rows(const GemmKernel& kernel, const GemmOperand& a, std::int64_t k) {
  return !readable_in_place(kernel, a, k, Transposed::Refuse);
}

void gemm(const GemmKernel& kernel, const Gemm& product, std::byte* scratch) {
  const MostOfABlock most(product.m, product.n, product.k, kernel);
  const bool packs = packs_rows(kernel, product.a, product.k);
  const Blocks blocks(most, product.n, packs ? GemmRows::Kind::Packed : GemmRows::Kind::InPlace,
                      kernel);
  const Pieces pieces(scratch, most, blocks.columns, product.m, product.out.dtype);
  for (std::int64_t column = 0; column < product.n; column += blocks.columns) {
    const std::int64_t columns = std::min(blocks.columns, product.n - column);
    for (std::int64_t k = 0; k < product.k; k += blocks.depth) {
      const std::int64_t depth = std::min(blocks.depth, product.k - k);
      const std::int64_t steps = steps_of(depth, kernel);
      pack_columns(kernel, part_of(product.b, k, column), columns, depth, pieces.b);
      for (std::int64_t row = 0; row < product.m; row += blocks.rows) {
        const std::int64_t rows = std::min(blocks.rows, product.m - row);
        const GemmOperand a = part_of(product.a, row, k);
        multiply_block({.kernel = kernel,
                        .a = packs ? pack_rows(kernel, a, rows, depth, pieces.a) : in_place(a),
                        .b = pieces.b,
                        .rows = rows,
                        .columns = columns,
                        .steps = steps,
                        .panel_steps = steps,
                        .first_step = 0,
                        .out = out_of_block(product, pieces.sums, row, column, columns, k)});
      }
    }
    if (pieces.sums) write_sums(product, pieces.sums, column, columns);
  }
}

std::int64_t packed_b_bytes(const GemmKernel& kernel, std::int64_t n, std::int64_t k) {
  return round_up(n, kMostLanes) * steps_of(k, kernel) * 4;
}

PackedB pack_b(const GemmKernel& kernel, const GemmOperand& b, std::int64_t n, std::int64_t k,
               std::byte* to) {
  auto* words = reinterpret_cast<std::uint32_t*>(to);
  pack_columns(kernel, b, n, k, words);
  return {words, n, k};
}

PackedB columns_from(const GemmKernel& kernel, const PackedB& b, std::int64_t column) {
  CLEAVE_CHECK(column % kernel.columns() == 0 && column < b.n, column, " of ", b.n);
  return {b.words + column * steps_of(b.k, kernel), b.n - column, b.k, b.first_row};
}

std::int64_t gemm_packed_scratch_bytes(const GemmKernel& kernel, std::int64_t k) {
  return kPackedRows * steps_of(k, kernel) * 4;
}

void gemm_packed(const GemmKernel& kernel, const Gemm& product, const PackedB& b,
                 std::byte* scratch) {
  CLEAVE_CHECK(b.first_row % kernel.k_step == 0, b.first_row);
  CLEAVE_CHECK(
      b.first_row + product.k <= b.k && (product.n % kernel.columns() == 0 || product.n == b.n),
      product.n, " columns of ", b.n, ", depth ", product.k, " of ", b.k);
  const bool packs = !readable_in_place(kernel, product.a, product.k, Transposed::Accept);
  for (std::int64_t row = 0; row < product.m; row += kPackedRows) {
    const std::int64_t rows = std::min(product.m - row, kPackedRows);
    const GemmOperand a = part_of(product.a, row, 0);
    GemmOut out = product.out;
    out.at += row * out.stride * size_of(out.dtype);
    multiply_block({.kernel = kernel,
                    .a = packs ? pack_rows(kernel, a, rows, product.k, scratch) : in_place(a),
                    .b = b.words,
                    .rows = rows,
                    .columns = product.n,
                    .steps = steps_of(product.k, kernel),
                    .panel_steps = steps_of(b.k, kernel),
                    .first_step = b.first_row / kernel.k_step,
                    .out = out});
  }
}

}  // namespace cleave::ops
