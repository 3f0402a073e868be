#pragma once

#include <cstdint>

#include "cleave/ops/compute.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

/// Which entries of a vocabulary a table has: [first, first + its rows). Ids of other entries yield
/// zeros and leave no gradient.
struct VocabRows {
  std::int64_t first = 0;
  std::int64_t vocabulary = 0;  // 0: as many as the table has
  float scale = 1;              // by which they are multiplied; another than 1 without positions
  std::int64_t still = -1;      // an id that leaves no gradient either; -1: none
};

/// y[t] = scale · table[ids[t]] + positions[first_position + t % sequence].
struct EmbeddingArgs {
  ConstView ids;    // i32 [tokens], each in [0, vocab)
  ConstView table;  // [vocab, hidden], or the rows that `rows` says; i32: packed rows
  VocabRows rows = {};
  ConstView positions = {};  // [context, hidden], or empty
  std::int64_t sequence = 1;
  std::int64_t first_position = 0;  // of each sequence; more than 0 only when generating
  View y;                           // [tokens, hidden], dtype of table unless that is packed
};
void embedding(Compute& compute, const EmbeddingArgs& args);

/// dtable[ids[t]] += scale · dy[t], in token order: threads divide the columns.
///
///   ids     i32 [tokens]
///   dy      [tokens, hidden]   f32 or bf16
///   dtable  f32 [vocab, hidden]
void embedding_backward(Compute& compute, ConstView ids, ConstView dy, View dtable,
                        const VocabRows& rows = {});

/// dpositions[t % sequence] += dy[t], in token order: threads divide the positions.
///
///   dy          [tokens, hidden]   f32 or bf16
///   dpositions  f32 [context, hidden]
void position_backward(Compute& compute, ConstView dy, std::int64_t sequence, View dpositions);

}  // namespace cleave::ops
