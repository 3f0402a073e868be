#pragma once

#include <cstdint>

#include "cleave/ops/compute.h"
#include "cleave/spec/matmul_spec.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

// Softmax cross-entropy, per token, in f32 from f32 or bf16 logits. A target below zero is ignored:
// loss 0, gradient 0. Logit rows are contiguous and may be padded to any row stride.

/// losses[t] = lse[t] - logits[t, targets[t]], lse = log Σ exp(logits).
///
///   logits   [tokens, vocab]
///   targets  i32 [tokens]
///   losses   f32 [tokens]
///   lse      f32 [tokens]   kept for backward, also where the target is ignored
void cross_entropy(Compute& compute, ConstView logits, ConstView targets, View losses, View lse);

/// hits[t] = 1 if the target has the highest logit of row t (the first of several that are equal),
/// else 0.
///
///   logits   [tokens, vocab]
///   targets  i32 [tokens]
///   hits     f32 [tokens]
void hits(Compute& compute, ConstView logits, ConstView targets, View hits);

/// Columns [first, first + columns of the block) of the vocabulary.
struct VocabBlock {
  View logits;  // [tokens, columns]
  std::int64_t first = 0;
};

/// In place: logits = (exp(logits - lse) - onehot(targets)) · scale, in the dtype of the logits.
/// Works on a block of the vocabulary or on all of it (first = 0).
void cross_entropy_backward(Compute& compute, VocabBlock block, ConstView targets, ConstView lse,
                            float scale);

/// What one pass over blocks of the vocabulary carries along.
struct SoftmaxState {
  View max;     // f32 [tokens]
  View sum;     // f32 [tokens]   Σ exp(logits - max)
  View target;  // f32 [tokens]   the target's logit, 0 until its block came by
};

/// Takes one more block into the state; Write::Overwrite for the first one.
void cross_entropy_partial(Compute& compute, VocabBlock block, ConstView targets,
                           const SoftmaxState& state, Write write);

/// Takes the state of other columns into `into`; every column must be in one of them only.
void cross_entropy_merge(Compute& compute, const SoftmaxState& other, const SoftmaxState& into);

/// Is called after the last block. One block and finish give the bits of cross_entropy.
void cross_entropy_finish(Compute& compute, const SoftmaxState& state, ConstView targets,
                          View losses, View lse);

}  // namespace cleave::ops
