#pragma once

#include "cleave/ops/attention.h"

namespace cleave::ops::reference {

/// ops::attention as it is written on paper, in f64. The oracle of the tests.
void attention(const AttentionShape& shape, ConstView q, ConstView k, ConstView v, View out,
               View lse, ConstView begins = {});
void attention_backward(const AttentionShape& shape, const AttentionGradient& at);

}  // namespace cleave::ops::reference
