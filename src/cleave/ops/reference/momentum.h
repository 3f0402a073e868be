#pragma once

#include "cleave/ops/momentum.h"

namespace cleave::ops::reference {

// The same roundings as the kernels, one element after another: the same bits.

void sgd(const MomentumArgs& args, const SgdHyper& hyper);
void lion(const MomentumArgs& args, const LionHyper& hyper);

}  // namespace cleave::ops::reference
