#pragma once

#include "cleave/tensor/view.h"

/// The activations as written on paper, in f64.
namespace cleave::ops::reference {

void gelu(ConstView x, View y);
void gelu_backward(ConstView x, ConstView dy, View dx);
void swiglu(ConstView gate_up, View y);
void swiglu_backward(ConstView gate_up, ConstView dy, View dgate_up);

}  // namespace cleave::ops::reference
