#pragma once

#include "cleave/ops/pair_loss.h"

namespace cleave::ops::reference {

void pair_losses(ConstView logits, const Pairing& pairing, View losses);
void pair_losses_backward(View logits, const Pairing& pairing, float scale, View sums);

}  // namespace cleave::ops::reference
