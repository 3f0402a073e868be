#include "cleave/layers/norm.h"

#include "cleave/ops/elementwise.h"
#include "cleave/ops/norm.h"

namespace cleave {
namespace {

// Indices into what the specs declare (spec/layers.cpp).
constexpr int kRstd = 0;
constexpr int kMean = 1;
constexpr int kDWeight = 0;
constexpr int kDBias = 1;

}  // namespace

void Layernorm::forward(ops::Compute& compute, const LayerCall& call) {
  ops::layernorm(compute, {.x = call.x,
                           .weight = parameter(0).value,
                           .bias = parameter(1).value,
                           .eps = spec().as<NormAttributes>().epsilon,
                           .y = call.y,
                           .mean = call.kept_by_forward[kMean],
                           .rstd = call.kept_by_forward[kRstd]});
}

void Layernorm::backward_input(ops::Compute& compute, const LayerCall& call) {
  ops::layernorm_backward(compute, {.dy = call.dy,
                                    .x = call.x,
                                    .weight = parameter(0).value,
                                    .mean = call.kept_by_forward[kMean],
                                    .rstd = call.kept_by_forward[kRstd],
                                    .add = call.add,
                                    .dx = call.dx,
                                    .dweight = call.kept_by_input[kDWeight],
                                    .dbias = call.kept_by_input[kDBias]});
}

void Layernorm::backward_weight(ops::Compute& compute, const LayerCall& call) {
  if (is_trained(0))
    ops::write(compute, call.kept_by_input[kDWeight], gradient(0, call), call.gradient);
  if (is_trained(1))
    ops::write(compute, call.kept_by_input[kDBias], gradient(1, call), call.gradient);
}

void Rmsnorm::forward(ops::Compute& compute, const LayerCall& call) {
  ops::rmsnorm(compute, {.x = call.x,
                         .weight = parameter(0).value,
                         .form = spec().as<NormAttributes>().form,
                         .eps = spec().as<NormAttributes>().epsilon,
                         .y = call.y,
                         .rstd = call.kept_by_forward[kRstd]});
}

void Rmsnorm::backward_input(ops::Compute& compute, const LayerCall& call) {
  ops::rmsnorm_backward(compute, {.dy = call.dy,
                                  .x = call.x,
                                  .weight = parameter(0).value,
                                  .form = spec().as<NormAttributes>().form,
                                  .rstd = call.kept_by_forward[kRstd],
                                  .add = call.add,
                                  .dx = call.dx,
                                  .dweight = call.kept_by_input[kDWeight]});
}

void Rmsnorm::backward_weight(ops::Compute& compute, const LayerCall& call) {
  ops::write(compute, call.kept_by_input[kDWeight], gradient(0, call), call.gradient);
}

}  // namespace cleave
