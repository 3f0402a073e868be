#include "cleave/layers/class_loss.h"

#include "cleave/ops/cross_entropy.h"
#include "cleave/ops/elementwise.h"

namespace cleave {
namespace {

// Indices into what the spec declares (spec/image_layers.cpp).
constexpr int kLabels = 0;    // of what it reads
constexpr int kClassLse = 0;  // of what it keeps

View row_of_result(View result, std::int64_t row) {
  return View(result.slice(0, row, 1).bytes(), result.dtype(), {result.size(1)});
}

}  // namespace

void ClassLoss::forward(ops::Compute& compute, const LayerCall& call) {
  const View labels = call.reads[kLabels];
  ops::cross_entropy(compute, call.x, labels, row_of_result(call.y, 0),
                     call.kept_by_forward[kClassLse]);
  ops::hits(compute, call.x, labels, row_of_result(call.y, 1));
}

void ClassLoss::backward_input(ops::Compute& compute, const LayerCall& call) {
  ops::copy(compute, call.x, call.dx);
  ops::cross_entropy_backward(compute, {call.dx}, call.reads[kLabels],
                              call.kept_by_forward[kClassLse], call.loss_scale);
}

}  // namespace cleave
