#include "cleave/layers/port_layers.h"

#include "cleave/ops/elementwise.h"
#include "cleave/spec/port_layers.h"

namespace cleave {
namespace {

/// [rows, places · features] as [rows · places, features].
template <class Byte>
BasicView<Byte> by_place(const BasicView<Byte>& tensor, std::int64_t places) {
  return tensor.reshaped({tensor.size(0) * places, tensor.size(1) / places});
}

}  // namespace

void AddPort::forward(ops::Compute& compute, const LayerCall& call) {
  ops::add(compute, call.x, call.reads[0], call.y);
}

void AddPort::backward_input(ops::Compute& compute, const LayerCall& call) {
  if (call.dx) ops::copy(compute, call.dy, call.dx);
  if (call.read_gradients[0]) ops::copy(compute, call.dy, call.read_gradients[0]);
}

void ConcatPort::forward(ops::Compute& compute, const LayerCall& call) {
  const std::int64_t places = spec().as<ConcatAttributes>().places;
  const View x = by_place(call.x, places);
  const View other = by_place(call.reads[0], places);
  const View y = by_place(call.y, places);
  ops::copy(compute, x, y.slice(1, 0, x.size(1)));
  ops::copy(compute, other, y.slice(1, x.size(1), other.size(1)));
}

void ConcatPort::backward_input(ops::Compute& compute, const LayerCall& call) {
  const std::int64_t places = spec().as<ConcatAttributes>().places;
  const ConstView dy = by_place(call.dy, places);
  const std::int64_t own = spec().x.shape[1] / places;
  if (call.dx) ops::copy(compute, dy.slice(1, 0, own), by_place(call.dx, places));
  if (!call.read_gradients[0]) return;
  const View gradient = by_place(call.read_gradients[0], places);
  ops::copy(compute, dy.slice(1, own, gradient.size(1)), gradient);
}

}  // namespace cleave
