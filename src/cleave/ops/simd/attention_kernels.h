#pragma once

#include <cstddef>
#include <cstdint>

#include "cleave/spec/dtype.h"

namespace cleave::ops {

/// A block of query rows of one head, at positions [first, first + rows) of its sequence, against
/// the keys [0, first + rows). Row r sees the keys up to its own position, and no others.
struct ScoreBlock {
  std::int64_t first;
  std::int64_t rows;
  std::int64_t stride;  ///< of the rows of s, dp, p and ds, in elements; ≥ keys()
  float scale;          ///< of the scores: 1/√head_dim
  DType dtype;          ///< of p, ds and the rows of heads

  std::int64_t keys() const { return first + rows; }
};

/// Rows of one head in a wider matrix; `stride` in elements.
struct HeadRows {
  const std::byte* at;
  std::int64_t stride;
};

/// p = e^(scale·s − its row's maximum), 0 where masked; not yet divided by its sum.
///
///   s     [rows, keys]  f32, products of q and k; may be the same memory as an f32 p
///   p     [rows, keys]  dtype
///   lse   [rows]        the logarithm of the sum of e^(scale·s)
///   norm  [rows]        1 / sum of the row of p
void softmax_block(const ScoreBlock& block, const float* s, std::byte* p, float* lse, float* norm);

/// out = norm ∘ o, row by row.
///
///   o    [rows, head_dim]  f32
///   out  [rows, head_dim]  dtype, rows `stride` elements apart
void normalize_block(const ScoreBlock& block, std::int64_t head_dim, const float* o,
                     const float* norm, std::byte* out, std::int64_t stride);

/// delta = row sums of dout ∘ out: what the softmax's gradient subtracts from dp.
void delta_block(const ScoreBlock& block, std::int64_t head_dim, HeadRows dout, HeadRows out,
                 float* delta);

/// p = e^(scale·s − lse) and ds = scale · p ∘ (dp − delta), both 0 where masked.
///
///   s, dp   [rows, keys]  f32; may be the same memory as f32 p and ds
///   p, ds   [rows, keys]  dtype
struct ScoreGradient {
  const float* s;
  const float* dp;
  const float* lse;
  const float* delta;
  std::byte* p;
  std::byte* ds;
};
void score_gradient_block(const ScoreBlock& block, const ScoreGradient& at);

/// to = from, `rows` rows of `columns`: f32, dense, to dtype with rows `stride` elements apart.
void round_rows(DType dtype, const float* from, std::int64_t rows, std::int64_t columns,
                std::byte* to, std::int64_t stride);

/// One query row against `length` key-value rows; `p` holds `length` floats.
struct DecodeHead {
  const std::byte* q;
  HeadRows k, v;
  std::byte* out;
  float* p;
  std::int64_t length, head_dim;
};
void decode_head(DType dtype, const DecodeHead& head);

}  // namespace cleave::ops
