#pragma once

#include <cstddef>
#include <cstdint>

#include "cleave/ops/simd/gemm_kernel.h"
#include "cleave/spec/dtype.h"
#include "cleave/spec/matmul_spec.h"

namespace cleave::ops {

/// A matrix in memory; strides in elements, one of them 1.
struct GemmOperand {
  const std::byte* at;
  DType dtype;
  std::int64_t row_stride;
  std::int64_t column_stride;
};

struct GemmOut {
  std::byte* at;
  DType dtype;
  std::int64_t stride;  ///< between rows, in elements
  Write write = Write::Overwrite;
  const std::byte* bias = nullptr;
  DType bias_dtype = DType::F32;
};

/// out [m, n] = a [m, k] · b [k, n], by one thread.
struct Gemm {
  std::int64_t m, n, k;
  GemmOperand a, b;
  GemmOut out;
};

/// Panels of a matrix b, packed once for many products; see gemm_kernel.h.
struct PackedB {
  const std::uint32_t* words;
  std::int64_t n, k;           ///< of the packed matrix
  std::int64_t first_row = 0;  ///< along k, that products begin with; a multiple of the k_step
};

/// The grid on which products are cut for threads: rows and columns that every kernel takes whole.
inline constexpr std::int64_t kGemmRows = 8;
inline constexpr std::int64_t kGemmColumns = 48;

/// Scratch of gemm(). Like that of gemm_packed() it depends on the elements in a word alone, not
/// on vectors or caches: a plan of memory that one processor has made holds on all that share its
/// bits.
std::int64_t gemm_scratch_bytes(const GemmKernel& kernel, std::int64_t m, std::int64_t n,
                                std::int64_t k, DType out);

/// True if gemm() packs the rows of an `a` of depth k, which the kernel cannot read where they are.
bool packs_rows(const GemmKernel& kernel, const GemmOperand& a, std::int64_t k);

/// Works in any blocks that suit the caches: an element of out is one chain of additions along k,
/// cut every kDepth words, so its bits depend on k and on the kernel's arithmetic alone.
void gemm(const GemmKernel& kernel, const Gemm& product, std::byte* scratch);

std::int64_t packed_b_bytes(const GemmKernel& kernel, std::int64_t n, std::int64_t k);
PackedB pack_b(const GemmKernel& kernel, const GemmOperand& b, std::int64_t n, std::int64_t k,
               std::byte* to);

/// The columns of a packed matrix from `column` on, a multiple of the kernel's columns().
PackedB columns_from(const GemmKernel& kernel, const PackedB& b, std::int64_t column);

/// Scratch of gemm_packed for up to `k`.
std::int64_t gemm_packed_scratch_bytes(const GemmKernel& kernel, std::int64_t k);

/// As gemm(), with k rows, from b.first_row on, and the first n columns of a packed b, all of k in
/// one chain. n must be a multiple of the kernel's columns(), or all columns. Out is f32, without
/// bias.
void gemm_packed(const GemmKernel& kernel, const Gemm& product, const PackedB& b,
                 std::byte* scratch);

}  // namespace cleave::ops
