#include "cleave/layers/activation.h"

#include "cleave/ops/activation.h"
#include "cleave/spec/gelu_form.h"

namespace cleave {
namespace {

GeluForm form_of(const LayerSpec& spec) {
  const auto* attributes = spec.attributes.get_if<GeluAttributes>();
  return attributes == nullptr ? GeluForm::Tanh : attributes->form;
}

}  // namespace

void Gelu::forward(ops::Compute& compute, const LayerCall& call) {
  ops::gelu(compute, call.x, call.y, form_of(spec()));
}

void Gelu::backward_input(ops::Compute& compute, const LayerCall& call) {
  ops::gelu_backward(compute, call.x, call.dy, call.dx, form_of(spec()));
}

void Swiglu::forward(ops::Compute& compute, const LayerCall& call) {
  ops::swiglu(compute, call.x, call.y);
}

void Swiglu::backward_input(ops::Compute& compute, const LayerCall& call) {
  ops::swiglu_backward(compute, call.x, call.dy, call.dx);
}

void Geglu::forward(ops::Compute& compute, const LayerCall& call) {
  ops::geglu(compute, call.x, call.y);
}

void Geglu::backward_input(ops::Compute& compute, const LayerCall& call) {
  ops::geglu_backward(compute, call.x, call.dy, call.dx);
}

}  // namespace cleave
