#include "cleave/parallel/token_sliced.h"

#include <algorithm>

#include "cleave/ops/elementwise.h"

namespace cleave::parallel {

TokenSliced::TokenSliced(const LayerSpec& spec, const LayerFactory& make, TensorGroup* group)
    : ShardedLayer(spec, spec.as<TokenSlicedAttributes>().axis, group) {
  const auto& attributes = spec.as<TokenSlicedAttributes>();
  std::int64_t row = 0;
  for (const LayerSpec& slice : attributes.slices) {
    first_row_.push_back(row);
    row += slice.x.shape[0];
    slices_.push_back(make(slice));
  }
  const LayerSpec& one = attributes.slices[0];
  room_.resize(one.kept_by_forward.size() + one.kept_by_input.size());
}

/// Every slice adds to sums of its own: sums[parameter] is f32 [slices, features].
void TokenSliced::fill_constants() {
  std::vector<View> constants;
  for (int i = 0; i < std::ssize(spec().constants); ++i) constants.push_back(constant(i));
  for (int s = 0; s < slices(); ++s) {
    std::vector<Parameter> parameters;
    for (std::size_t p = 0; p < spec().parameters.size(); ++p) {
      const Parameter& whole = parameter(static_cast<int>(p));
      parameters.push_back({whole.value, View()});
      if (spec().sums.empty()) continue;  // nothing is trained
      const View sums = cache(static_cast<int>(p));
      parameters.back().gradient = sums.slice(0, s, 1).reshaped(spec().parameters[p].shape);
    }
    slices_[static_cast<std::size_t>(s)]->bind(parameters, constants, {}, memory());
  }
}

void TokenSliced::move_value(int index, View value) {
  Layer::move_value(index, value);
  for (const auto& slice : slices_) slice->move_value(index, value);
}

std::int64_t TokenSliced::scratch_bytes(ops::Compute& compute) const {
  std::int64_t sums = 0;
  for (const ParameterSpec& parameter : spec().parameters) {
    sums = std::max(sums, parameter.elements() * size_of(DType::F32));
  }
  std::int64_t most = TensorGroup::workspace_bytes(sums, axis().devices);
  for (const auto& slice : slices_) most = std::max(most, slice->scratch_bytes(compute));
  return most;
}

LayerCall TokenSliced::slice_of(const LayerCall& call, int slice) {
  const LayerSpec& one = slices_[slice]->spec();
  const auto rows = [&](auto view) {
    return view ? view.slice(0, first_row_[slice], one.x.shape[0]) : view;
  };
  LayerCall part = call;
  part.x = rows(call.x);
  part.y = rows(call.y);
  part.skip = rows(call.skip);
  part.dy = rows(call.dy);
  part.dx = rows(call.dx);
  part.add = rows(call.add);
  part.gradient_shift = call.sum_shift;
  const std::size_t kept = one.kept_by_forward.size();
  for (std::size_t i = 0; i < kept; ++i) room_[i] = rows(call.kept_by_forward[i]);
  part.kept_by_forward = std::span(room_).first(kept);
  if (!call.kept_by_input.empty()) {
    for (std::size_t i = 0; i < one.kept_by_input.size(); ++i) {
      room_[kept + i] =
          call.kept_by_input[i].slice(0, slice, 1).reshaped(one.kept_by_input[i].shape);
    }
    part.kept_by_input = std::span(room_).subspan(kept, one.kept_by_input.size());
  }
  return part;
}

void TokenSliced::forward(ops::Compute& compute, const LayerCall& call) {
  for (int s = 0; s < slices(); ++s) slices_[s]->forward(compute, slice_of(call, s));
}

void TokenSliced::backward_input(ops::Compute& compute, const LayerCall& call) {
  for (int s = 0; s < slices(); ++s) slices_[s]->backward_input(compute, slice_of(call, s));
}

void TokenSliced::backward_weight(ops::Compute& compute, const LayerCall& call) {
  for (int s = 0; s < slices(); ++s) slices_[s]->backward_weight(compute, slice_of(call, s));
  if (call.ends_sum) add_up(compute, call);
}

/// In place: the sums begin anew with the next data shard.
void TokenSliced::add_up(ops::Compute& compute, const LayerCall& call) {
  for (int p = 0; p < std::ssize(spec().parameters); ++p) {
    if (!is_trained(p)) continue;
    const View bound = cache(p);
    const View sums(bound.bytes() + call.sum_shift, bound.dtype(), bound.shape());
    const View out = gradient(p, call);
    const auto at = [&](int slice) { return sums.slice(0, slice, 1).reshaped(out.shape()); };
    for (int width = 1; width < slices(); width *= 2) {
      for (int s = 0; s + width < slices(); s += 2 * width) {
        ops::add(compute, at(s), at(s + width), at(s));
      }
    }
    ops::copy(compute, at(0), out);
    if (divided()) group().all_reduce(out);
  }
}

}  // namespace cleave::parallel
