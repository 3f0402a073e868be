#include "cleave/layers/qk_norm.h"

#include "cleave/ops/elementwise.h"
#include "cleave/ops/norm.h"

namespace cleave {
namespace {

/// Row `row` of a [rows, …] tensor, without its first dim.
View row_at(View rows, std::int64_t row) {
  return View(rows.slice(0, row, 1).bytes(), rows.dtype(), {rows.size(1)});
}

/// fn(part, row, first column) for every row that is normed.
template <class Fn>
void for_rows(const QkNormAttributes& attributes, const Fn& fn) {
  for (int part = 0; part < static_cast<int>(attributes.parts.size()); ++part) {
    const auto& [first, rows, width] = attributes.parts[part];
    for (std::int64_t row = 0; row < rows; ++row) fn(part, row, first + row * width);
  }
}

}  // namespace

void QkNorm::copy_rest(ops::Compute& compute, ConstView from, View to) const {
  const auto& last = attributes().parts.back();
  const std::int64_t first = last.first + last.rows * last.width;
  const std::int64_t count = to.size(1) - first;
  ops::copy(compute, from.slice(1, first, count), to.slice(1, first, count));
}

void QkNorm::forward(ops::Compute& compute, const LayerCall& call) {
  for_rows(attributes(), [&](int part, std::int64_t row, std::int64_t first) {
    const std::int64_t width = attributes().parts[part].width;
    ops::rmsnorm(compute, {.x = call.x.slice(1, first, width),
                           .weight = parameter(part).value,
                           .form = attributes().form,
                           .eps = attributes().epsilon,
                           .y = call.y.slice(1, first, width),
                           .rstd = row_at(call.kept_by_forward[part], row)});
  });
  copy_rest(compute, call.x, call.y);
}

void QkNorm::backward_input(ops::Compute& compute, const LayerCall& call) {
  for_rows(attributes(), [&](int part, std::int64_t row, std::int64_t first) {
    const std::int64_t width = attributes().parts[part].width;
    ops::rmsnorm_backward(compute, {.dy = call.dy.slice(1, first, width),
                                    .x = call.x.slice(1, first, width),
                                    .weight = parameter(part).value,
                                    .form = attributes().form,
                                    .rstd = row_at(call.kept_by_forward[part], row),
                                    .dx = call.dx.slice(1, first, width),
                                    .dweight = row_at(call.kept_by_input[part], row)});
  });
  copy_rest(compute, call.dy, call.dx);
}

void QkNorm::backward_weight(ops::Compute& compute, const LayerCall& call) {
  for_rows(attributes(), [&](int part, std::int64_t row, std::int64_t) {
    if (!is_trained(part)) return;
    ops::write(compute, row_at(call.kept_by_input[part], row), gradient(part, call),
               row == 0 ? call.gradient : Write::Accumulate);
  });
}

}  // namespace cleave
