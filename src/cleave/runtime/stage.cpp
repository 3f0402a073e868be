#include "cleave/runtime/stage.h"

#include <algorithm>
#include <ranges>

#include "cleave/base/check.h"
#include "cleave/ops/reduce.h"

namespace cleave::runtime {
namespace {

View view_at(const Frame& frame, const plan::Place& place, const TensorSpec& tensor) {
  if (place.region == plan::Region::None) return {};
  return View(frame[static_cast<int>(place.region)] + place.offset, tensor.dtype, tensor.shape);
}

void search_non_finite(ops::Compute& compute, const LayerSpec& layer, ConstView result,
                       const char* what) {
  if (!result || ops::all_finite(compute, result)) return;
  throw NonFinite(std::string(what) + " of layer " + layer.name + " is not finite");
}

}  // namespace

/// The arguments of one call of a layer; `room` is for the views of its kept tensors.
class Stage::Call {
 public:
  Call(std::span<View> room, const Entry& entry, const Pass& pass,
       const plan::BackwardPlaces& backward, std::int64_t gradient_shift = 0) {
    const LayerSpec& spec = entry.layer->spec();
    const plan::LayerPlaces& places = *entry.places;
    call_.x = view_at(pass.frame, places.x, spec.x);
    call_.y = view_at(pass.frame, places.y, spec.y);
    call_.skip = view_at(pass.frame, places.skip, spec.x);
    call_.dy = view_at(pass.frame, backward.dy, spec.y);
    call_.dx = view_at(pass.frame, backward.dx, spec.x);
    call_.add = view_at(pass.frame, backward.add, spec.x);
    call_.gradient = pass.gradient;
    call_.ends_sum = pass.ends_sum;
    call_.gradient_shift = gradient_shift;
    call_.loss_scale = pass.loss_scale;

    const std::size_t by_forward = spec.kept_by_forward.size();
    const std::size_t by_input = backward.kept_by_input.size();  // none in F
    const std::span<View> forward = room.first(by_forward);
    const std::span<View> input = room.subspan(by_forward, by_input);
    for (std::size_t i = 0; i < by_forward; ++i) {
      forward[i] = view_at(pass.frame, places.kept_by_forward[i], spec.kept_by_forward[i].tensor);
    }
    for (std::size_t i = 0; i < by_input; ++i) {
      input[i] = view_at(pass.frame, backward.kept_by_input[i], spec.kept_by_input[i]);
    }
    call_.kept_by_forward = forward;
    call_.kept_by_input = input;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  operator const LayerCall&() const { return call_; }
  const LayerCall* operator->() const { return &call_; }

 private:
  LayerCall call_;
};

Stage::Stage(std::vector<SegmentSpec> segments, plan::Position position,
             const plan::StateOptions& state, const LayerFactory& make)
    : segments_(std::move(segments)),
      position_(position),
      dtype_(state.dtype),
      state_(plan::layout_state(segments_, state)) {
  const int count = static_cast<int>(segments_.size());
  for (int s = 0; s < count; ++s) {
    layouts_.push_back(
        plan::layout_stage({&segments_[s], 1}, plan::position_in(position, s, count)));
  }
  for (int s = 0; s < count; ++s) {
    first_entry_.push_back(entries_.size());
    const plan::LayerPlaces* places = layouts_[s].layers.data();
    for (const LayerSpec& layer : segments_[s].layers) {
      entries_.push_back({make(layer), places++});
      room_.resize(
          std::max(room_.size(), layer.kept_by_forward.size() + layer.kept_by_input.size()));
    }
  }
  first_entry_.push_back(entries_.size());
}

std::span<const Stage::Entry> Stage::entries(int segment) const {
  return std::span(entries_).subspan(first_entry_[segment],
                                     first_entry_[segment + 1] - first_entry_[segment]);
}

bool Stage::begins_model(int segment) const {
  const bool first = position_ == plan::Position::Only || position_ == plan::Position::First;
  return first && segment == 0;
}

bool Stage::ends_model(int segment) const {
  const bool last = position_ == plan::Position::Only || position_ == plan::Position::Last;
  return last && segment + 1 == static_cast<int>(segments_.size());
}

std::int64_t Stage::kernel_scratch_bytes(ops::Compute& compute) const {
  std::int64_t most = 0;
  for (const Entry& entry : entries_) most = std::max(most, entry.layer->scratch_bytes(compute));
  return aligned(most);
}

std::int64_t Stage::work_bytes() const {
  std::int64_t most = 0;
  for (const plan::StageLayout& layout : layouts_) {
    most = std::max({most, layout.forward_work, layout.input_work, layout.fused_work});
  }
  return most;
}

View Stage::gradients(int segment, int sum) const {
  const plan::SegmentState& state = state_.segments[segment];
  return View(gradients_ + state.gradients + sum * state.gradient_bytes(), DType::F32,
              {state.elements});
}

ParameterState Stage::bind_parameter(int segment, const plan::ParameterPlace& place,
                                     const Memory& memory,
                                     std::span<const ParameterState> others) const {
  const plan::SegmentState& at = state_.segments[segment];
  const auto view = [&](std::byte* buffer, std::int64_t offset, DType dtype) {
    return View(buffer + offset + place.at * size_of(dtype), dtype, place.spec->shape);
  };
  ParameterState state{.spec = place.spec, .borrowed = place.borrowed};
  state.gradient = view(memory.gradients, at.gradients, DType::F32);
  if (!place.borrowed) {
    state.value = view(memory.weights, at.values, dtype_);
    state.master = view(memory.weights, at.masters, DType::F32);
    state.m = view(memory.optimizer, at.m, DType::F32);
    state.v = view(memory.optimizer, at.v, DType::F32);
    return state;
  }
  for (const std::span<const ParameterState> bound : {others, std::span(parameters_)}) {
    for (const ParameterState& owner : bound) {
      if (owner.spec->name != place.spec->tied_to) continue;
      state.value = owner.value;
      state.master = owner.master;
      state.m = owner.m;
      state.v = owner.v;
    }
  }
  CLEAVE_CHECK(state.value, place.spec->tied_to, " is not bound yet");
  return state;
}

void Stage::bind(const Memory& memory, std::span<const ParameterState> others) {
  gradients_ = memory.gradients;
  for (int s = 0; s < static_cast<int>(segments_.size()); ++s) {
    for (const plan::ParameterPlace& place : state_.segments[s].parameters) {
      parameters_.push_back(bind_parameter(s, place, memory, others));
    }
  }

  std::size_t next = 0;
  std::size_t next_sum = 0;
  for (Entry& entry : entries_) {
    const LayerSpec& spec = entry.layer->spec();
    std::vector<Parameter> parameters;
    for (std::size_t i = 0; i < spec.parameters.size(); ++i, ++next) {
      parameters.push_back({parameters_[next].value, parameters_[next].gradient});
    }
    std::vector<View> constants;
    for (const TensorSpec& constant : spec.constants) {
      const auto place = std::ranges::find_if(state_.constants, [&](const plan::ConstantPlace& c) {
        return c.spec->name == constant.name;
      });
      constants.emplace_back(memory.weights + place->offset, constant.dtype, constant.shape);
    }
    std::vector<View> sums;
    for (const TensorSpec& sum : spec.sums) {
      sums.emplace_back(memory.weights + state_.sums[next_sum++].offset, sum.dtype, sum.shape);
    }
    entry.layer->bind(parameters, constants, sums);
  }
}

void Stage::forward(ops::Compute& compute, const Pass& pass, Search search) {
  for (const Entry& entry : entries(pass.segment)) {
    const Call call(room_, entry, pass, {});
    entry.layer->forward(compute, call);
    if (search == Search::NonFinite)
      search_non_finite(compute, entry.layer->spec(), call->y, "the output");
    between_layers_();
  }
}

void Stage::backward_input(ops::Compute& compute, const Pass& pass, Search search) {
  for (const Entry& entry : entries(pass.segment) | std::views::reverse) {
    const Call call(room_, entry, pass, entry.places->split);
    entry.layer->backward_input(compute, call);
    if (search == Search::NonFinite)
      search_non_finite(compute, entry.layer->spec(), call->dx, "the gradient");
    between_layers_();
  }
}

void Stage::backward_weight(ops::Compute& compute, const Pass& pass) {
  const std::int64_t shift = pass.sum * state_.segments[pass.segment].gradient_bytes();
  for (const Entry& entry : entries(pass.segment) | std::views::reverse) {
    if (entry.layer->spec().parameters.empty()) continue;
    entry.layer->backward_weight(compute, Call(room_, entry, pass, entry.places->split, shift));
    between_layers_();
  }
}

void Stage::backward(ops::Compute& compute, const Pass& pass, Search search) {
  const std::int64_t shift = pass.sum * state_.segments[pass.segment].gradient_bytes();
  for (const Entry& entry : entries(pass.segment) | std::views::reverse) {
    const Call call(room_, entry, pass, entry.places->fused, shift);
    entry.layer->backward_input(compute, call);
    if (search == Search::NonFinite)
      search_non_finite(compute, entry.layer->spec(), call->dx, "the gradient");
    if (!entry.layer->spec().parameters.empty()) entry.layer->backward_weight(compute, call);
    between_layers_();
  }
}

View Stage::tokens(const Pass& pass) const {
  if (!begins_model(pass.segment)) return {};
  return view_at(pass.frame, entries_.front().places->x, entries_.front().layer->spec().x);
}

View Stage::targets(const Pass& pass) const {
  if (!ends_model(pass.segment)) return {};
  const Entry& last = entries_.back();
  const auto& kept = last.layer->spec().kept_by_forward;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i].tensor.name == "targets") {
      return view_at(pass.frame, last.places->kept_by_forward[i], kept[i].tensor);
    }
  }
  return {};
}

View Stage::losses(const Pass& pass) const {
  if (!ends_model(pass.segment)) return {};
  return view_at(pass.frame, entries_.back().places->y, entries_.back().layer->spec().y);
}

}  // namespace cleave::runtime
