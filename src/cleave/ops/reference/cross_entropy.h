#pragma once

#include "cleave/tensor/view.h"

/// Softmax cross-entropy as written on paper, in f64.
namespace cleave::ops::reference {

void cross_entropy(ConstView logits, ConstView targets, View losses, View lse);

void hits(ConstView logits, ConstView targets, View hits);

/// Works in place on all of the vocabulary.
void cross_entropy_backward(View logits, ConstView targets, ConstView lse, float scale);

}  // namespace cleave::ops::reference
