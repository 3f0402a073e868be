#pragma once

#include <cstdint>

#include "cleave/ops/attention.h"
#include "cleave/ops/cross_entropy.h"
#include "cleave/ops/matmul.h"
#include "cleave/ops/norm.h"

/// The kernels operation by operation, one number at a time: what exact numerics mean.
///
/// The rest of reference/ says what the ops approximate, in f64. These twins round where the
/// kernels round and add in their order, and every processor with fused multiply-add agrees with
/// them to the bit, in f32 and in bf16.
namespace cleave::ops::reference::exact {

/// Sums have this many slots: element i goes to slot i % kSlots, in order of i.
inline constexpr std::int64_t kSlots = 64;

/// Slots as four rows of 16: the rows are added pairwise, then the row by halves.
float sum_of_slots(const float (&slots)[kSlots]);

template <class Term>
float sum_in_slots(std::int64_t n, const Term& term) {
  float slots[kSlots] = {};
  for (std::int64_t i = 0; i < n; ++i) slots[i % kSlots] += term(i);
  return sum_of_slots(slots);
}

float exp(float x);
float log(float x);
float tanh(float x);

/// An element is a chain of fused multiply-adds along k, cut into equal blocks of at most 1536; the
/// blocks are added in order.
void matmul(ConstView a, ConstView b, View out, const MatmulOptions& options = {});

void layernorm(const LayernormArgs& args);
void layernorm_backward(const LayernormBackwardArgs& args);
void cross_entropy(ConstView logits, ConstView targets, View losses, View lse);
void attention(const AttentionShape& shape, ConstView q, ConstView k, ConstView v, View out,
               View lse, ConstView begins = {});
void attention_backward(const AttentionShape& shape, const AttentionGradient& at);

}  // namespace cleave::ops::reference::exact
