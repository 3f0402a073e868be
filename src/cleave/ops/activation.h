#pragma once

#include "cleave/ops/compute.h"
#include "cleave/spec/gelu_form.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

// All views of one call have one dtype. An output may be the same memory as an argument of its
// shape. Arithmetic is f32, rounded once.

/// y = x · (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2, the form that GPT-2 uses; or exactly x · Φ(x),
/// Φ(x) = (1 + erf(x / √2)) / 2; or, quickly, x / (1 + exp(-1.702 x)).
///
///   x, y  [tokens, hidden]
void gelu(Compute& compute, ConstView x, View y, GeluForm form = GeluForm::Tanh);

/// dx = dy · gelu'(x).
///
///   x, dy, dx  [tokens, hidden]
void gelu_backward(Compute& compute, ConstView x, ConstView dy, View dx,
                   GeluForm form = GeluForm::Tanh);

/// y = silu(gate) · up, silu(g) = g / (1 + exp(-g)).
///
///   gate_up  [tokens, 2 ffn]   gate in the first ffn columns, up in the others
///   y        [tokens, ffn]
void swiglu(Compute& compute, ConstView gate_up, View y);

///   gate_up, dgate_up  [tokens, 2 ffn]
///   dy                 [tokens, ffn]
void swiglu_backward(Compute& compute, ConstView gate_up, ConstView dy, View dgate_up);

/// y = gelu(gate) · up, with the tanh form; arguments as those of swiglu.
void geglu(Compute& compute, ConstView gate_up, View y);
void geglu_backward(Compute& compute, ConstView gate_up, ConstView dy, View dgate_up);

}  // namespace cleave::ops
