#include "cleave/ops/device/elementwise.h"

#include "cleave/ops/device/run.h"

namespace cleave::ops::device {
namespace {

/// As elementwise.cl counts them.
std::int64_t number_of(GeluForm form) {
  return form == GeluForm::Tanh ? 0 : form == GeluForm::Exact ? 1 : 2;
}

}  // namespace

void add(Accelerator& device, ConstView a, ConstView b, View out) {
  const Elements e({a, b, out});
  run_items(device, "add", a.dtype(), e.count, e.count, e.n, e.inner, a, e.outer(a), e.row(a), b,
            e.outer(b), e.row(b), out, e.outer(out), e.row(out));
}

void scale(Accelerator& device, ConstView a, float factor, View out) {
  const Elements e({a, out});
  run_items(device, "scale", a.dtype(), e.count, e.count, e.n, e.inner, a, e.outer(a), e.row(a),
            factor, out, e.outer(out), e.row(out));
}

void weighted_sum(Accelerator& device, const Weighted& a, const Weighted& b, View out) {
  const Elements e({a.values, b.values, out});
  run_items(device, "weighted_sum", DType::F32, e.count, e.count, e.n, e.inner, a.values,
            e.outer(a.values), e.row(a.values), a.weight, b.values, e.outer(b.values),
            e.row(b.values), b.weight, out, e.outer(out), e.row(out));
}

void fill(Accelerator& device, float value, View out) {
  const Elements e({out});
  run_items(device, "fill", out.dtype(), e.count, e.count, e.n, e.inner, value, out, e.outer(out),
            e.row(out));
}

namespace {

/// The part of a view of rank 4 that has this first index.
template <class Byte>
BasicView<Byte> inner_of(const BasicView<Byte>& view, std::int64_t index) {
  return {view.slice(0, index, 1).bytes(),
          view.dtype(),
          Shape{view.size(1), view.size(2), view.size(3)},
          {view.stride(1), view.stride(2), view.stride(3)}};
}

}  // namespace

void copy(Accelerator& device, ConstView a, View out) {
  if (a.rank() == 4 && !(a.dense() && out.dense())) {
    for (std::int64_t i = 0; i < a.size(0); ++i) copy(device, inner_of(a, i), inner_of(out, i));
    return;
  }
  const Elements e({a, out});
  run_items(device, "copy", a.dtype(), e.count, e.count, e.n, e.inner, a, e.outer(a), e.row(a), out,
            e.outer(out), e.row(out), std::int64_t{out.dtype() == DType::BF16});
}

void gelu(Accelerator& device, ConstView x, View y, GeluForm form) {
  const Elements e({x, y});
  run_items(device, "gelu", x.dtype(), e.count, e.count, e.n, e.inner, number_of(form), x,
            e.outer(x), e.row(x), y, e.outer(y), e.row(y));
}

void gelu_backward(Accelerator& device, ConstView x, ConstView dy, View dx, GeluForm form) {
  const Elements e({x, dy, dx});
  run_items(device, "gelu_backward", x.dtype(), e.count, e.count, e.n, e.inner, number_of(form), x,
            e.outer(x), e.row(x), dy, e.outer(dy), e.row(dy), dx, e.outer(dx), e.row(dx));
}

void gated(Accelerator& device, Gate gate, ConstView gate_up, View y) {
  run_items(device, "gated", y.dtype(), y.elements(), y.elements(), y.size(1),
            std::int64_t{gate == Gate::Gelu}, gate_up, stride_of(gate_up), y, stride_of(y));
}

void gated_backward(Accelerator& device, Gate gate, ConstView gate_up, ConstView dy,
                    View dgate_up) {
  run_items(device, "gated_backward", dy.dtype(), dy.elements(), dy.elements(), dy.size(1),
            std::int64_t{gate == Gate::Gelu}, gate_up, stride_of(gate_up), dy, stride_of(dy),
            dgate_up, stride_of(dgate_up));
}

void rope(Accelerator& device, const RopeArgs& args) {
  const std::int64_t heads = args.x.size(1);
  const std::int64_t pairs = args.cos.size(1);
  const std::int64_t count = args.x.size(0) * heads * pairs;
  run_items(device, "rope", args.x.dtype(), count, count, heads, pairs, args.x, args.x.stride(0),
            args.x.stride(1), args.cos, args.sin, args.sequence, args.first_position,
            args.rotation == Rotation::Forward ? 1.0f : -1.0f);
}

}  // namespace cleave::ops::device
