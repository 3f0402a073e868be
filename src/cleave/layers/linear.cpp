#include "cleave/layers/linear.h"

#include "cleave/ops/elementwise.h"
#include "cleave/ops/matmul.h"
#include "cleave/ops/reduce.h"

namespace cleave {

ConstView Linear::weight() const {
  const View stored = parameter(0).value;
  return transposed() ? stored.transposed() : stored;
}

void Linear::forward(ops::Compute& compute, const LayerCall& call) {
  const ConstView bias = has_bias() ? parameter(1).value : View();
  ops::matmul(compute, call.x, weight(), call.y, {.bias = bias});
}

void Linear::backward_input(ops::Compute& compute, const LayerCall& call) {
  if (!call.dx) return;  // x comes from the data, as patches of images do
  ops::matmul(compute, call.dy, weight().transposed(), call.dx);
}

void Linear::backward_weight(ops::Compute& compute, const LayerCall& call) {
  // The gradient has the weight's own layout: dw = xᵀ · dy, or its transpose dyᵀ · x.
  const ConstView x = call.x;
  const ConstView left = transposed() ? call.dy : x;
  const ConstView right = transposed() ? x : call.dy;
  if (is_trained(0))
    ops::matmul(compute, left.transposed(), right, gradient(0, call), {.write = call.gradient});
  if (!has_bias() || !is_trained(1)) return;
  if (call.gradient == Write::Overwrite) ops::fill(compute, 0, gradient(1, call));
  ops::add_column_sums(compute, call.dy, gradient(1, call));
}

}  // namespace cleave
