#pragma once

#include <cstddef>
#include <cstdint>

#include "cleave/ops/compute.h"
#include "cleave/ops/simd/attention_kernels.h"
#include "cleave/spec/attention_spec.h"
#include "cleave/tensor/view.h"

namespace cleave::ops::onednn {

/// What one thread holds while it works on attention: pieces of the device's scratch.
///
/// The rows of a head lie far apart in q, k and v. They are gathered here first, because oneDNN has
/// its fast kernels for dense matrices only.
struct AttentionWorkspace {
  std::byte* q;     // [block, head_dim]
  std::byte* dout;  // [block, head_dim]
  std::byte* k;     // [sequence, head_dim]
  std::byte* v;     // [sequence, head_dim]
  float* s;         // [block, sequence]
  float* dp;        // [block, sequence]
  std::byte* p;     // [block, sequence]; with f32 the memory of s
  std::byte* ds;    // [block, sequence]; with f32 the memory of dp
  float* o;         // [block, head_dim]; also dq
  float* rows;      // [block]
  float* dk;        // [sequence, head_dim]
  float* dv;        // [sequence, head_dim]
  std::byte* products;
  std::int64_t bytes;

  /// Laid out from `base`; every piece begins on a cache line.
  AttentionWorkspace(std::byte* base, const AttentionShape& shape, DType dtype,
                     std::int64_t product_bytes);
};

/// The products of one block of queries, for a single thread.
class AttentionProducts {
 public:
  AttentionProducts(Compute& compute, const AttentionShape& shape, DType dtype);

  /// Compiles those of every block; returns the scratch of the largest.
  std::int64_t compile();

  /// s [rows, keys] = q [rows, head_dim] · kᵀ
  void scores(const ScoreBlock& block, const std::byte* q, const std::byte* k, float* s) const;
  /// o [rows, head_dim] = p [rows, keys] · v
  void mix(const ScoreBlock& block, const std::byte* p, const std::byte* v, float* o) const;
  /// dv [keys, head_dim] += pᵀ · dout [rows, head_dim]
  void spread(const ScoreBlock& block, const std::byte* p, const std::byte* dout, float* dv) const;

  int slot = 0;
  std::byte* scratch = nullptr;

 private:
  MatmulSpec scores_spec(const ScoreBlock& block) const;
  MatmulSpec mix_spec(const ScoreBlock& block) const;
  MatmulSpec spread_spec(const ScoreBlock& block) const;
  void run(const MatmulSpec& spec, const void* a, const void* b, void* out) const;

  Compute& compute_;
  AttentionShape shape_;
  DType dtype_;
};

/// Block `index` of the queries of a sequence.
ScoreBlock score_block(const AttentionShape& shape, DType dtype, std::int64_t index);

inline std::int64_t block_count(const AttentionShape& shape) {
  return (shape.sequence + kAttentionBlock - 1) / kAttentionBlock;
}

/// Rows [begin, begin + …) of one head of a [tokens, heads, head_dim] view.
template <class Byte>
Byte* head_at(const BasicView<Byte>& view, std::int64_t token, std::int64_t head) {
  return view.bytes() + (token * view.stride(0) + head * view.stride(1)) * size_of(view.dtype());
}

/// Copies `rows` rows of one head, from `token` on, next to each other.
void gather(ConstView view, std::int64_t token, std::int64_t head, std::int64_t rows,
            std::byte* to);

}  // namespace cleave::ops::onednn
