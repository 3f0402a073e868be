#pragma once

#include <cstddef>
#include <cstdint>

#include "cleave/ops/compute.h"
#include "cleave/spec/dtype.h"

namespace cleave::ops {

/// The innermost product: a tile of out from a strip of a and a panel of b.
///
///     strip of a   words (row, step) at a + row · a_row + step · a_step bytes
///     panel of b   [steps][columns] words, read from front to back
///     out          [rows][columns] f32, rows `stride` elements apart
///
/// A word has 32 bits and holds one f32, or two neighbours along k in bf16.
struct GemmTile {
  std::int64_t steps;
  const std::byte* a;
  std::int64_t a_row, a_step;
  const std::uint32_t* b;
  float* out;
  std::int64_t stride;
};

/// Each element of a tile is one chain of fused multiply-adds along k, whatever the size of the
/// tile: it has the same bits wherever in a matrix it lies and however the matrix is cut for
/// threads.
struct GemmKernel {
  using Run = void (*)(const GemmTile& tile);

  static constexpr int kVectors = 3;  ///< widest panel of b, in vectors
  static constexpr int kHeights = 4;

  int lanes;                           ///< of a vector of f32
  int rows;                            ///< highest panel of a: 1, 2, 4, … of these
  int k_step;                          ///< elements along k in a word
  Run overwrite[kHeights][kVectors];   ///< [log2 of rows][vectors − 1]
  Run accumulate[kHeights][kVectors];  ///< out += tile

  int columns() const { return kVectors * lanes; }
  /// The panels into which `rows` rows are cut are as high as possible, then ever lower.
  int height(std::int64_t rows_left) const {
    int height = rows;
    while (height > rows_left) height /= 2;
    return height;
  }
};

/// What a kernel does with what is in out already.
enum class Into : std::uint8_t { Overwrite, Accumulate };

/// The tables of a GemmKernel whose tiles are multiply<rows, vectors, into>, up to `most` rows
/// high. A macro, since a function could not take a template of functions with instruction sets of
/// their own.
#define CLEAVE_GEMM_PANELS(rows, into) \
  { multiply<rows, 1, into>, multiply<rows, 2, into>, multiply<rows, 3, into> }
#define CLEAVE_GEMM_HEIGHTS(most, into)                                                    \
  {                                                                                        \
    CLEAVE_GEMM_PANELS(1, into), CLEAVE_GEMM_PANELS(2, into), CLEAVE_GEMM_PANELS(4, into), \
        CLEAVE_GEMM_PANELS(most, into)                                                     \
  }
#define CLEAVE_GEMM_TABLES(most)                           \
  .overwrite = CLEAVE_GEMM_HEIGHTS(most, Into::Overwrite), \
  .accumulate = CLEAVE_GEMM_HEIGHTS(most, Into::Accumulate)

/// The kernel for operands of `dtype` on this processor. For bf16 it is one for f32 (k_step 1)
/// where there is no bf16 arithmetic or where it is not wanted; panels are then packed as f32.
const GemmKernel& gemm_kernel(DType dtype, Arithmetic arithmetic);

/// Multiplies pairs of bf16 and adds them in f32 (vdpbf16ps); null if the processor cannot. Does
/// not ask whether AVX-512 may be used at all.
const GemmKernel* bf16_gemm_kernel();

/// The kernel of f32 on AArch64, with as many sums as its registers hold; null elsewhere.
const GemmKernel* neon_gemm_kernel();

}  // namespace cleave::ops
