#pragma once

#include <cstddef>
#include <cstdint>

#include "cleave/spec/attention_spec.h"
#include "cleave/spec/dtype.h"

namespace cleave::ops {

/// A block of query rows of one head, at positions [first, first + rows) of its sequence, against
/// `keys`. Column c of s, dp, p and ds belongs to key c of the sequence; columns outside of `keys`
/// are neither read nor written.
struct ScoreBlock {
  const AttentionShape& shape;
  std::int64_t first;
  std::int64_t rows;
  KeyRange keys;        ///< begins with a multiple of 64, except in decoding
  std::int64_t stride;  ///< of the rows of s, dp, p and ds, in elements; ≥ keys.end
  DType dtype;          ///< of p, ds and the rows of heads
  const std::int32_t* begins = nullptr;  ///< of documents, as AttentionShape::seen_from() has it

  /// The keys that row `row` sees, counted from the first of `keys`.
  KeyRange seen_by(std::int64_t row) const {
    const KeyRange seen = shape.seen_from(first + row, begins);
    return {seen.first - keys.first, seen.end - keys.first};
  }
};

/// Rows of one head in a wider matrix; `stride` in elements.
struct HeadRows {
  const std::byte* at;
  std::int64_t stride;
};

/// s = cap · tanh(scale·s / cap), for a shape with a cap.
void cap_block(const ScoreBlock& block, float* s);

/// p = e^(scale·s − its row's maximum), 0 where masked; not yet divided by its sum. After
/// cap_block() the scale is 1, here and in score_gradient_block().
///
///   s     [rows, keys]  f32, products of q and k; may be the same memory as an f32 p. Masked
///                       elements before those that a row sees become −∞
///   p     [rows, keys]  dtype
///   lse   [rows]        the logarithm of the sum of e^(scale·s)
///   norm  [rows]        1 / sum of the row of p
void softmax_block(const ScoreBlock& block, float* s, std::byte* p, float* lse, float* norm);

/// out = norm ∘ o, row by row.
///
///   o    [rows, head_dim]  f32
///   out  [rows, head_dim]  dtype, rows `stride` elements apart
void normalize_block(const ScoreBlock& block, std::int64_t head_dim, const float* o,
                     const float* norm, std::byte* out, std::int64_t stride);

/// delta = row sums of dout ∘ out: what the softmax's gradient subtracts from dp.
void delta_block(const ScoreBlock& block, std::int64_t head_dim, HeadRows dout, HeadRows out,
                 float* delta);

/// p = e^(scale·s − lse) and ds = scale · p ∘ (dp − delta), both 0 where masked; with a cap ds is
/// also multiplied by the slope of the tanh.
///
///   s, dp   [rows, keys]  f32; may be the same memory as f32 p and ds. s as in softmax_block()
///   p, ds   [rows, keys]  dtype
struct ScoreGradient {
  float* s;
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

/// One query row against the last of `length` key-value rows that `shape` lets it see; `p` holds
/// `length` floats.
struct DecodeHead {
  const AttentionShape& shape;
  const std::byte* q;
  HeadRows k, v;
  std::byte* out;
  float* p;
  std::int64_t length;
};
void decode_head(DType dtype, const DecodeHead& head);

}  // namespace cleave::ops
