#include "cleave/parallel/sharded.h"

#include <algorithm>
#include <utility>

#include "cleave/ops/elementwise.h"
#include "cleave/ops/scratch_claim.h"

namespace cleave::parallel {
namespace {

View view_of(std::byte* data, const TensorSpec& tensor) {
  return View(data, tensor.dtype, tensor.shape);
}

}  // namespace

Sharded::Sharded(const LayerSpec& spec, const LayerFactory& make, TensorGroup* group)
    : ShardedLayer(spec, spec.as<ShardedAttributes>().axis, group) {
  for (const auto& chain : attributes().chains) {
    auto& layers = chains_.emplace_back();
    for (const LayerSpec& layer : chain) layers.push_back(make(layer));
  }
}

void Sharded::fill_constants() {
  int next = 0;
  for (const auto& chain : chains_) {
    for (const auto& layer : chain) {
      std::vector<Parameter> parameters;
      for (std::size_t i = 0; i < layer->spec().parameters.size(); ++i) {
        parameters.push_back(parameter(next++));
      }
      std::vector<View> constants;
      for (const TensorSpec& wanted : layer->spec().constants) {
        const auto known = std::ranges::find(spec().constants, wanted.name, &TensorSpec::name);
        constants.push_back(constant(static_cast<int>(known - spec().constants.begin())));
      }
      layer->bind(parameters, constants, {}, memory());
    }
  }
}

void Sharded::move_value(int index, View value) {
  Layer::move_value(index, value);
  for (const auto& chain : chains_) {
    for (const auto& layer : chain) {
      const int count = static_cast<int>(layer->spec().parameters.size());
      if (index < count) return layer->move_value(index, value);
      index -= count;
    }
  }
}

// ── Scratch ──────────────────────────────────────────────────────────────────────────────────────

std::int64_t Sharded::shared_bytes() const {
  return attributes().shared.columns == 0
             ? 0
             : PartialSums::slot_bytes(axis().tokens * attributes().shared.columns,
                                       inner(0).y.dtype);
}

Sharded::Room Sharded::forward_room() const {
  Room room;
  if (divided() && !from_data()) room.gathered = inner(0).x.bytes();
  room.sums = sum_bytes(inner(layers() - 1).y);
  for (int i = 0; i + 1 < layers(); ++i) {
    if (attributes().links[0][i].y < 0) room.inside += inner(i).y.bytes();
  }
  return room;
}

Sharded::Room Sharded::input_room() const {
  Room room;
  if (from_data()) return room;
  room.sums = sum_bytes(inner(0).x);
  for (int i = 1; i < layers(); ++i) {
    if (attributes().links[0][i].dx < 0) room.inside += inner(i).x.bytes();
  }
  room.shared = shared_bytes() * PartialSums::slots(shards());
  return room;
}

/// What only I needs makes room for the sum of dx that is on its way.
Sharded::Room Sharded::backward_room() const {
  Room room = input_room();
  if (from_data() || axis().devices == 1) return room;
  if (divided()) room.gathered = inner(0).x.bytes();
  room.inside = std::max(room.inside + room.shared, reduce_workspace(inner(0).x));
  room.shared = 0;
  return room;
}

std::int64_t Sharded::scratch_bytes(ops::Compute& compute) const {
  std::int64_t kernels = TensorGroup::workspace_bytes(shared_bytes(), axis().devices);
  for (const auto& chain : chains_) {
    for (const auto& layer : chain)
      kernels = std::max(kernels, aligned(layer->scratch_bytes(compute)));
  }
  const std::int64_t inside =
      std::max({kernels, reduce_workspace(inner(layers() - 1).y), reduce_workspace(inner(0).x)});
  const std::int64_t gathered = spec().dy_until == Until::Weight && divided()
                                    ? inner(layers() - 1).y.bytes()
                                    : forward_room().gathered;
  return std::max(inside + std::max({forward_room().bytes(), input_room().bytes(), gathered}),
                  kernels + backward_room().bytes());
}

// ── One layer of one shard ───────────────────────────────────────────────────────────────────────

LayerCall Sharded::inner_call(const LayerCall& call, int k, int layer) const {
  const ShardLink& link = attributes().links[k][layer];
  const LayerSpec& declared = chains_[k][layer]->spec();
  LayerCall inside = call;
  inside.add = {};
  inside.kept_by_forward = call.kept_by_forward.subspan(static_cast<std::size_t>(link.kept),
                                                        declared.kept_by_forward.size());
  if (!call.kept_by_input.empty()) {
    inside.kept_by_input = call.kept_by_input.subspan(static_cast<std::size_t>(link.kept_by_input),
                                                      declared.kept_by_input.size());
  }
  return inside;
}

View Sharded::inner_y(const LayerCall& call, int k, int layer, std::byte* inside) const {
  const auto& links = attributes().links[k];
  if (links[layer].y >= 0) return call.kept_by_forward[links[layer].y];
  if (inside == nullptr) return {};
  for (int i = 0; i < layer; ++i) {
    if (links[i].y < 0) inside += inner(i).y.bytes();
  }
  return view_of(inside, inner(layer).y);
}

View Sharded::inner_dx(const LayerCall& call, int k, int layer, std::byte* inside) const {
  const auto& links = attributes().links[k];
  if (links[layer].dx >= 0) return call.kept_by_input[links[layer].dx];
  if (inside == nullptr) return {};
  for (int i = 1; i < layer; ++i) {
    if (links[i].dx < 0) inside += inner(i).x.bytes();
  }
  return view_of(inside, inner(layer).x);
}

// ── The passes ───────────────────────────────────────────────────────────────────────────────────

void Sharded::forward(ops::Compute& compute, const LayerCall& call) {
  const Room room = forward_room();
  const ops::ScratchClaim claim(compute, room.bytes());
  const View x =
      room.gathered > 0 ? gather(compute, call.x, view_of(claim.data(), inner(0).x)) : call.x;
  std::byte* slots = claim.data() + room.gathered;
  std::byte* inside = slots + room.sums;
  const int last = layers() - 1;
  const PartialSums sums = partial_sums(inner(last).y, call.y, slots);
  for (int k = 0; k < shards(); ++k) {
    for (int i = 0; i <= last; ++i) {
      LayerCall step = inner_call(call, k, i);
      step.x = i == 0 ? x : inner_y(call, k, i - 1, inside);
      step.y = i == last ? sums[k] : inner_y(call, k, i, inside);
      chains_[k][i]->forward(compute, step);
    }
    sums.merge(compute, k);
  }
  add_after(compute, reduce(sums[0]), call.y);
}

View Sharded::input_of_chains(ops::Compute& compute, const LayerCall& call, ConstView dy,
                              std::byte* slots, std::byte* inside) {
  const int last = layers() - 1;
  const PartialSums sums = partial_sums(inner(0).x, call.dx, slots);
  for (int k = 0; k < shards(); ++k) {
    for (int i = last; i >= 0; --i) {
      LayerCall step = inner_call(call, k, i);
      step.x = i == 0 ? call.x : inner_y(call, k, i - 1, nullptr);
      step.y = i == last ? View() : inner_y(call, k, i, nullptr);
      step.dy = i == last ? dy : ConstView(inner_dx(call, k, i + 1, inside));
      step.dx = i == 0 ? sums[k] : inner_dx(call, k, i, inside);
      chains_[k][i]->backward_input(compute, step);
      progress();
    }
    sums.merge(compute, k);
  }
  share_columns(compute, call, inside + input_room().inside);
  return sums[0];
}

void Sharded::backward_input(ops::Compute& compute, const LayerCall& call) {
  if (from_data()) return;
  const Room room = input_room();
  const ops::ScratchClaim claim(compute, room.bytes());
  const ConstView dy = divided() ? gather(compute, call.dy, call.kept_by_input[0]) : call.dy;
  const View dx =
      reduce(input_of_chains(compute, call, dy, claim.data(), claim.data() + room.sums));
  if (divided()) ops::copy(compute, dx, call.dx);
}

void Sharded::weight_of_chains(ops::Compute& compute, const LayerCall& call, View x, ConstView dy,
                               comm::Pending x_arrives) {
  const int last = layers() - 1;
  for (int k = 0; k < shards(); ++k) {
    for (int i = last; i >= 0; --i) {
      if (!trains(chains_[k][i]->spec())) continue;
      LayerCall step = inner_call(call, k, i);
      step.x = i == 0 ? x : inner_y(call, k, i - 1, nullptr);
      step.dy = i == last ? dy : ConstView(inner_dx(call, k, i + 1, nullptr));
      if (i == 0) x_arrives.wait();
      chains_[k][i]->backward_weight(compute, step);
      progress();
    }
  }
  add_after_gradient(compute, dy, call);
}

void Sharded::backward_weight(ops::Compute& compute, const LayerCall& call) {
  const TensorSpec& gathered = from_data() ? inner(layers() - 1).y : inner(0).x;
  const ops::ScratchClaim claim(compute, divided() ? gathered.bytes() : 0);
  if (!divided()) return weight_of_chains(compute, call, call.x, call.dy, {});
  if (!from_data() && !trains(inner(0)))
    return weight_of_chains(compute, call, {}, call.kept_by_input[0], {});
  const View whole = view_of(claim.data(), gathered);
  if (from_data())
    return weight_of_chains(compute, call, call.x, gather(compute, call.dy, whole), {});
  weight_of_chains(compute, call, whole, call.kept_by_input[0],
                   start_gather(compute, call.x, whole));
}

void Sharded::backward(ops::Compute& compute, const LayerCall& call) {
  if (from_data() || axis().devices == 1) return Layer::backward(compute, call);
  const Room room = backward_room();
  const ops::ScratchClaim claim(compute, room.bytes());
  std::byte* const gathered = claim.data() + room.sums;
  std::byte* const rest = gathered + room.gathered;
  View x = call.x;
  ConstView dy = call.dy;
  comm::Pending x_arrives;
  if (divided()) {
    x = view_of(gathered, inner(0).x);
    dy = call.kept_by_input[0];
    comm::Pending dy_arrives = start_gather(compute, call.dy, call.kept_by_input[0]);
    if (trains(inner(0))) x_arrives = start_gather(compute, call.x, x);
    dy_arrives.wait();
  }
  const View sum = input_of_chains(compute, call, dy, claim.data(), rest);
  comm::Pending dx_leaves = start_reduce(sum, rest);
  weight_of_chains(compute, call, x, dy, std::move(x_arrives));
  dx_leaves.wait();
  if (divided()) ops::copy(compute, group().own_rows(sum), call.dx);
}

}  // namespace cleave::parallel
