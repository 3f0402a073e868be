#include "cleave/parallel/gathered.h"

#include <algorithm>
#include <vector>

#include "cleave/ops/elementwise.h"
#include "cleave/ops/scratch_claim.h"

namespace cleave::parallel {

Gathered::Gathered(const LayerSpec& spec, const LayerFactory& make, TensorGroup* group)
    : ShardedLayer(spec, {.devices = spec.as<GatheredAttributes>().devices}, group),
      layer_(make(spec.as<GatheredAttributes>().whole[0])) {}

void Gathered::fill_constants() {
  std::vector<Parameter> parameters;
  for (int i = 0; i < std::ssize(spec().parameters); ++i) parameters.push_back(parameter(i));
  std::vector<View> constants;
  for (int i = 0; i < std::ssize(spec().constants); ++i) constants.push_back(constant(i));
  std::vector<View> sums;
  for (int i = 0; i < std::ssize(spec().sums); ++i) sums.push_back(cache(i));
  layer_->bind(parameters, constants, sums, memory());
}

void Gathered::move_value(int index, View value) {
  Layer::move_value(index, value);
  layer_->move_value(index, value);
}

std::int64_t Gathered::forward_room() const {
  const GatheredAttributes& a = attributes();
  return (a.divides_x && a.x < 0 ? whole().x.bytes() : 0) +
         (a.divides_y && a.y < 0 ? whole().y.bytes() : 0);
}

std::int64_t Gathered::input_room() const {
  const GatheredAttributes& a = attributes();
  return (a.divides_x ? whole().x.bytes() : 0) + (a.divides_y && a.dy < 0 ? whole().y.bytes() : 0);
}

std::int64_t Gathered::scratch_bytes(ops::Compute& compute) const {
  return std::max(forward_room(), input_room()) + aligned(layer_->scratch_bytes(compute));
}

LayerCall Gathered::whole_call(const LayerCall& call) const {
  const GatheredAttributes& a = attributes();
  LayerCall inside = call;
  if (a.divides_x) inside.x = a.x < 0 ? View() : call.kept_by_forward[a.x];
  if (a.divides_y) inside.y = a.y < 0 ? View() : call.kept_by_forward[a.y];
  inside.kept_by_forward = call.kept_by_forward.last(whole().kept_by_forward.size());
  if (!call.kept_by_input.empty()) {
    if (a.dy >= 0) inside.dy = call.kept_by_input[a.dy];
    inside.kept_by_input = call.kept_by_input.last(whole().kept_by_input.size());
  }
  return inside;
}

void Gathered::forward(ops::Compute& compute, const LayerCall& call) {
  const GatheredAttributes& a = attributes();
  const ops::ScratchClaim claim(compute, forward_room());
  std::byte* room = claim.data();
  LayerCall inside = whole_call(call);
  if (a.divides_x && !call.x) {
    inside.x = View(nullptr, whole().x.dtype, whole().x.shape);  // nothing arrives
  } else if (a.divides_x) {
    if (a.x < 0) {
      inside.x = View(room, whole().x.dtype, whole().x.shape);
      room += whole().x.bytes();
    }
    gather(compute, call.x, inside.x);
  }
  if (a.divides_y && a.y < 0) inside.y = View(room, whole().y.dtype, whole().y.shape);
  layer_->forward(compute, inside);
  if (a.divides_y) ops::copy(compute, group().own_rows(inside.y), call.y);
}

void Gathered::backward_input(ops::Compute& compute, const LayerCall& call) {
  const GatheredAttributes& a = attributes();
  const ops::ScratchClaim claim(compute, input_room());
  std::byte* room = claim.data();
  LayerCall inside = whole_call(call);
  inside.add = {};
  if (a.divides_y) {
    if (a.dy >= 0) {
      inside.dy = gather(compute, call.dy, call.kept_by_input[a.dy]);
    } else {
      inside.dy = gather(compute, call.dy, View(room, whole().y.dtype, whole().y.shape));
      room += whole().y.bytes();
    }
  }
  const bool makes_dx = a.divides_x && call.dx;
  if (makes_dx) inside.dx = View(room, whole().x.dtype, whole().x.shape);
  layer_->backward_input(compute, inside);
  if (makes_dx) ops::copy(compute, group().own_rows(inside.dx), call.dx);
}

void Gathered::backward_weight(ops::Compute& compute, const LayerCall& call) {
  layer_->backward_weight(compute, whole_call(call));
}

}  // namespace cleave::parallel
