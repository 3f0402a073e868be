#pragma once

#include <cstdint>

#include "cleave/ops/compute.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

/// Rows of each sequence, and the heads that a row of keys or values has side by side.
struct PoolShape {
  std::int64_t sequences = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;

  std::int64_t features() const { return heads * head_dim; }
};

// One query attends to all rows of a sequence, the same query in each: scores are q · k /
// sqrt(head_dim). Sums are in f64, in the order of the rows, and rounded once. Threads divide the
// heads.

/// y = the values of a sequence by the weights that its keys have for the query.
///
///   q   f32 [features]
///   kv  [sequences · sequence, 2 · features]   keys, then values; f32 or bf16
///   y   [sequences, features]                  dtype of kv
///   p   f32 [sequences, heads, sequence]       the weights, which backward needs
void attention_pool(Compute& compute, const PoolShape& shape, ConstView q, ConstView kv, View y,
                    View p);

/// What attention_pool() was given and made, and where the gradients go; shapes as there.
struct PoolGradient {
  ConstView q, kv, p;
  ConstView dy;
  View dkv;  ///< shape of kv
  View dq;   ///< f32 [features]: the sum over sequences, in their order
};
void attention_pool_backward(Compute& compute, const PoolShape& shape, const PoolGradient& at);

}  // namespace cleave::ops
