#pragma once

#include <cstdint>
#include <span>

#include "cleave/ops/compute.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

/// out += the sum of `a` over its rows, f32: the gradient of a bias.
///
///   a    [tokens, n]   f32 or bf16
///   out  f32 [n]
///
/// Each column is summed in groups of eight tokens, pairwise within a group, the groups in order:
/// the same bits for any number of threads and any instruction set.
void add_column_sums(Compute& compute, ConstView a, View out);

/// Elements in one block of sum_of_squares. ZeRO borders lie on block borders.
inline constexpr std::int64_t kSquaresBlock = 4096;

/// blocks[i] = the sum of squares of elements [4096 i, 4096 (i + 1)) of `a`, in f64.
///
///   a       f32, dense, of any shape
///   blocks  ⌈elements / 4096⌉ of them
void sum_of_squares(Compute& compute, ConstView a, std::span<double> blocks);

/// False if any element is infinite or NaN; `a` is f32 or bf16, rows contiguous.
bool all_finite(Compute& compute, ConstView a);

}  // namespace cleave::ops
