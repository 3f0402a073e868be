#pragma once

#include "cleave/ops/adamw.h"
#include "cleave/ops/momentum.h"
#include "cleave/ops/update_factors.h"

// The updates of the same names on an accelerator; their arguments are checked.
namespace cleave::ops::device {

void adamw(Accelerator& device, const AdamwArgs& args, const AdamwFactors& factors);
void sgd(Accelerator& device, const MomentumArgs& args, const SgdFactors& factors);
void lion(Accelerator& device, const MomentumArgs& args, const LionFactors& factors);

}  // namespace cleave::ops::device
