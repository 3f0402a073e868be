#pragma once

#include "cleave/spec/gelu_form.h"
#include "cleave/tensor/view.h"

/// The activations as written on paper, in f64.
namespace cleave::ops::reference {

void gelu(ConstView x, View y, GeluForm form = GeluForm::Tanh);
void gelu_backward(ConstView x, ConstView dy, View dx, GeluForm form = GeluForm::Tanh);
void swiglu(ConstView gate_up, View y);
void swiglu_backward(ConstView gate_up, ConstView dy, View dgate_up);
void geglu(ConstView gate_up, View y);
void geglu_backward(ConstView gate_up, ConstView dy, View dgate_up);

}  // namespace cleave::ops::reference
