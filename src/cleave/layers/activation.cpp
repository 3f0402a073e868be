#include "cleave/layers/activation.h"

#include "cleave/ops/activation.h"

namespace cleave {

void Gelu::forward(ops::Compute& compute, const LayerCall& call) {
  ops::gelu(compute, call.x, call.y);
}

void Gelu::backward_input(ops::Compute& compute, const LayerCall& call) {
  ops::gelu_backward(compute, call.x, call.dy, call.dx);
}

void Swiglu::forward(ops::Compute& compute, const LayerCall& call) {
  ops::swiglu(compute, call.x, call.y);
}

void Swiglu::backward_input(ops::Compute& compute, const LayerCall& call) {
  ops::swiglu_backward(compute, call.x, call.dy, call.dx);
}

}  // namespace cleave
