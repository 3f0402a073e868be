#pragma once

#include "cleave/base/codec.h"
#include "cleave/ops/compute.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

/// `out` [words] i32 becomes x, f32 or bf16 and dense, as `codec` has it; null: as it is. Numbers
/// are drawn from `chance` by their places in x.
void encode(Compute& compute, ConstView x, const Codec* codec, Chance chance, View out);

/// y, f32 or bf16 and dense, becomes what `in` [words] i32 stands for.
void decode(Compute& compute, ConstView in, const Codec* codec, View y);

}  // namespace cleave::ops
