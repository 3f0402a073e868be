#pragma once

#include <cstddef>
#include <cstdint>

#include "cleave/ops/simd/attention_kernels.h"
#include "cleave/ops/simd/gemm.h"
#include "cleave/spec/attention_spec.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

/// One thread's hands in attention: its piece of the device's scratch, and the products of a block.
///
/// Keys and values are packed once per head and then serve every block of queries: the rows that a
/// block sees are consecutive ones of a packed matrix.
class AttentionWorker {
 public:
  static std::int64_t scratch_bytes(const GemmKernel& kernel, const AttentionShape& shape,
                                    DType dtype);

  AttentionWorker(const GemmKernel& kernel, const AttentionShape& shape, DType dtype,
                  std::byte* scratch);

  std::int64_t block_count() const;
  /// `begins` as AttentionShape::seen_from() has it.
  ScoreBlock block(std::int64_t index, const std::int32_t* begins) const;

  /// Rows of one head in a wider matrix, as matrix b of a product: [sequence, head_dim] or
  /// transposed.
  PackedB pack(ConstView view, std::int64_t token, std::int64_t head, std::int64_t rows,
               std::byte* to) const;
  PackedB pack_transposed(ConstView view, std::int64_t token, std::int64_t head,
                          std::byte* to) const;

  /// s [rows, keys] = q [rows, head_dim] · kᵀ, neither scaled nor capped
  void scores(const ScoreBlock& block, HeadRows q, const PackedB& k, float* s);
  /// o [rows, head_dim] = p [rows, keys] · v
  void mix(const ScoreBlock& block, const std::byte* p, const PackedB& v, float* o);
  /// dv [keys, head_dim] += pᵀ · dout [rows, head_dim]
  void spread(const ScoreBlock& block, const std::byte* p, const PackedB& dout, float* dv);

  // Forward needs two packed matrices, backward three.
  std::byte* packed[3];
  std::byte* packed_block;  // [block, head_dim]
  float* s;                 // [block, sequence]
  float* dp;                // [block, sequence]
  std::byte* p;             // [block, sequence]; with f32 the memory of s
  std::byte* ds;            // [block, sequence]; with f32 the memory of dp
  float* o;                 // [block, head_dim]; also dq
  float* row;               // [block]
  float* dk;                // [sequence, head_dim]
  float* dv;                // [sequence, head_dim]

 private:
  std::int64_t lay_out(std::byte* base);
  std::int64_t stride() const;

  const GemmKernel& kernel_;
  AttentionShape shape_;
  DType dtype_;
  std::byte* product_scratch_;
};

/// Where `head` of row `token` of a [tokens, heads, head_dim] view begins.
template <class Byte>
Byte* head_at(const BasicView<Byte>& view, std::int64_t token, std::int64_t head) {
  return view.bytes() + (token * view.stride(0) + head * view.stride(1)) * size_of(view.dtype());
}

}  // namespace cleave::ops
