#pragma once

#include <cstdint>

#include "cleave/ops/compute.h"
#include "cleave/spec/attention_spec.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

/// out = softmax(scale · q · kᵀ) · v over the keys that the shape's mask lets a query see, within
/// each sequence; with a cap the scores go through it first.
///
///   q, out  [tokens, heads, head_dim]      f32 or bf16
///   k, v    [tokens, kv_heads, head_dim]   same dtype
///   lse     [sequences, heads, sequence]   f32: the log of each row's sum, which backward needs
///
/// Tokens are sequences one after another. The views may be slices of wider rows (of one qkv
/// matrix, say); the elements of one head must be contiguous. No sequence × sequence matrix exists:
/// a thread holds the scores of kAttentionBlock queries at a time. Needs attention_scratch_bytes.
///
/// Where the shape has documents, `begins` i32 [tokens] has the position in its sequence at which
/// the document of each token begins; blocks of keys of earlier documents are skipped.
void attention(Compute& compute, const AttentionShape& shape, ConstView q, ConstView k, ConstView v,
               View out, View lse, ConstView begins = {});

/// What attention() was given and made, and where the gradients go; shapes as there.
struct AttentionGradient {
  ConstView q, k, v, out, lse;
  ConstView dout;
  View dq;  ///< shape of q
  View dk;  ///< shape of k; summed over the query heads of its group in head order
  View dv;  ///< shape of v; likewise
  ConstView begins = {};
};

void attention_backward(Compute& compute, const AttentionShape& shape, const AttentionGradient& at);

/// Scratch that attention() and attention_backward() need.
std::int64_t attention_scratch_bytes(Compute& compute, const AttentionShape& shape, DType dtype);

/// Attention of one new token to the tokens of a key-value cache, itself the last of them. Of the
/// shape it takes the heads, the mask and the score. Needs length · 4 bytes of scratch per thread,
/// each rounded up to 64.
struct DecodeViews {
  ConstView q;     ///< [heads, head_dim]
  ConstView k, v;  ///< [length, kv_heads, head_dim]
  View out;        ///< [heads, head_dim]
};
void attention_decode(Compute& compute, const AttentionShape& shape, const DecodeViews& at);

}  // namespace cleave::ops
