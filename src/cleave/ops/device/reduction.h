#pragma once

#include <span>

#include "cleave/ops/cross_entropy.h"
#include "cleave/ops/embedding.h"
#include "cleave/ops/norm.h"
#include "cleave/ops/reduce.h"

// The ops of the same names on an accelerator; their arguments are checked, but for the ids in its
// memory: one that has no row yields zeros and leaves no gradient.
namespace cleave::ops::device {

/// Without bias and mean it is RMSNorm, whose weight has a form.
void norm(Accelerator& device, const LayernormArgs& args, NormWeight form);
void norm_backward(Accelerator& device, const LayernormBackwardArgs& args, NormWeight form);

void add_column_sums(Accelerator& device, ConstView a, View out);
/// Sums pass through `scratch`: one block's at a time, or as many as have room there.
void sum_of_squares(Accelerator& device, ConstView a, std::span<double> blocks,
                    std::span<std::byte> scratch);
bool all_finite(Accelerator& device, ConstView a);

void embedding(Accelerator& device, const EmbeddingArgs& args);
void embedding_backward(Accelerator& device, ConstView ids, ConstView dy, View dtable,
                        const VocabRows& rows);
void position_backward(Accelerator& device, ConstView dy, std::int64_t sequence, View dpositions);

void cross_entropy(Accelerator& device, ConstView logits, ConstView targets, View losses, View lse);
void hits(Accelerator& device, ConstView logits, ConstView targets, View hits);
void cross_entropy_backward(Accelerator& device, VocabBlock block, ConstView targets, ConstView lse,
                            float scale);
void cross_entropy_partial(Accelerator& device, VocabBlock block, ConstView targets,
                           const SoftmaxState& state, Write write);
void cross_entropy_merge(Accelerator& device, const SoftmaxState& other, const SoftmaxState& into);
void cross_entropy_finish(Accelerator& device, const SoftmaxState& state, ConstView targets,
                          View losses, View lse);

}  // namespace cleave::ops::device
