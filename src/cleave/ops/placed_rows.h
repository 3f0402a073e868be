#pragma once

#include "cleave/ops/compute.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

/// Where images stand in a text. A place that is no row of x says that the token is one of the
/// text.
struct PlacedTokens {
  ConstView ids;            // i32 [tokens]
  ConstView places;         // i32 [tokens]
  std::int64_t still = -1;  // an id that leaves no gradient; -1: none
};

/// y[t] = x[places[t]] where that is a row of x, else table[ids[t]].
///
///   x  [rows, hidden]   table  [vocab, hidden]   y  [tokens, hidden]   all f32 or all bf16
void place_rows(Compute& compute, const PlacedTokens& tokens, ConstView x, ConstView table, View y);

/// y[t] = x[t] + rows[places[t]] where that is one of the rows, else x[t]; y may be x. There may be
/// no rows at all.
///
///   x, y  [tokens, hidden]   rows  [n, hidden]   places  i32 [tokens]   all f32 or all bf16
void add_rows(Compute& compute, ConstView places, ConstView x, ConstView rows, View y);

/// dx[r] = the sum of dy[t] over the tokens whose place is r, in token order: threads divide the
/// columns.
///
///   dy  [tokens, hidden]   dx  [rows, hidden], dtype of dy
void place_rows_backward(Compute& compute, ConstView places, ConstView dy, View dx);

/// dtable[ids[t]] += dy[t] for the tokens of the text, in token order: threads divide the columns.
/// `rows` is how many x had.
///
///   dy  [tokens, hidden]   dtable  f32 [vocab, hidden]
void place_table_backward(Compute& compute, const PlacedTokens& tokens, std::int64_t rows,
                          ConstView dy, View dtable);

}  // namespace cleave::ops
