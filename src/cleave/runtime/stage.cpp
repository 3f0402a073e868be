#include "cleave/runtime/stage.h"

#include <algorithm>
#include <ranges>

#include "cleave/base/check.h"
#include "cleave/ops/reduce.h"

namespace cleave::runtime {
namespace {

constexpr int kMostKept = 4;

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

/// The arguments of one call of a layer, with room for its kept tensors.
class Stage::Call {
 public:
  Call(const Entry& entry, const Pass& pass, const plan::BackwardPlaces& backward,
       std::int64_t gradient_shift = 0) {
    const LayerSpec& spec = entry.layer->spec();
    const plan::LayerPlaces& places = *entry.places;
    call_.x = view_at(pass.frame, places.x, spec.x);
    call_.y = view_at(pass.frame, places.y, spec.y);
    call_.skip = view_at(pass.frame, places.skip, spec.x);
    call_.dy = view_at(pass.frame, backward.dy, spec.y);
    call_.dx = view_at(pass.frame, backward.dx, spec.x);
    call_.add = view_at(pass.frame, backward.add, spec.x);
    call_.gradient = pass.gradient;
    call_.gradient_shift = gradient_shift;
    call_.loss_scale = pass.loss_scale;

    const std::size_t by_forward = spec.kept_by_forward.size();
    const std::size_t by_input = backward.kept_by_input.size();  // none in F
    CLEAVE_CHECK(by_forward <= kMostKept && by_input <= kMostKept, spec.name,
                 " keeps too many tensors");
    for (std::size_t i = 0; i < by_forward; ++i) {
      by_forward_[i] =
          view_at(pass.frame, places.kept_by_forward[i], spec.kept_by_forward[i].tensor);
    }
    for (std::size_t i = 0; i < by_input; ++i) {
      by_input_[i] = view_at(pass.frame, backward.kept_by_input[i], spec.kept_by_input[i]);
    }
    call_.kept_by_forward = {by_forward_.data(), by_forward};
    call_.kept_by_input = {by_input_.data(), by_input};
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  operator const LayerCall&() const { return call_; }
  const LayerCall* operator->() const { return &call_; }

 private:
  std::array<View, kMostKept> by_forward_;
  std::array<View, kMostKept> by_input_;
  LayerCall call_;
};

Stage::Stage(std::vector<SegmentSpec> segments, plan::Position position, DType dtype,
             std::span<const std::string> resident, const LayerFactory& make)
    : segments_(std::move(segments)),
      position_(position),
      dtype_(dtype),
      layout_(plan::layout_stage(segments_, position)),
      state_(plan::layout_state(segments_, dtype, resident)) {
  const plan::LayerPlaces* places = layout_.layers.data();
  for (const SegmentSpec& segment : segments_) {
    for (const LayerSpec& layer : segment.layers) entries_.push_back({make(layer), places++});
  }
}

std::int64_t Stage::kernel_scratch_bytes(ops::Compute& compute) const {
  std::int64_t most = 0;
  for (const Entry& entry : entries_) most = std::max(most, entry.layer->scratch_bytes(compute));
  return aligned(most);
}

std::int64_t Stage::work_bytes() const {
  return std::max({layout_.forward_work, layout_.input_work, layout_.fused_work});
}

View Stage::gradients(int sum) const {
  return View(gradients_ + sum * state_.gradients, DType::F32,
              {state_.gradients / size_of(DType::F32)});
}

void Stage::bind(const Memory& memory, std::span<const ParameterState> others) {
  gradients_ = memory.gradients;
  for (const plan::ParameterPlace& place : state_.parameters) {
    const Shape& shape = place.spec->shape;
    ParameterState state{.spec = place.spec, .borrowed = place.borrowed};
    state.gradient = View(memory.gradients + place.gradient, DType::F32, shape);
    if (place.borrowed) {
      const auto is_owner = [&](const ParameterState& p) {
        return p.spec->name == place.spec->tied_to;
      };
      auto owner = std::ranges::find_if(others, is_owner);
      const ParameterState* found = owner != others.end() ? &*owner : nullptr;
      if (found == nullptr) {
        const auto own = std::ranges::find_if(parameters_, is_owner);
        CLEAVE_CHECK(own != parameters_.end(), place.spec->tied_to, " is not bound yet");
        found = &*own;
      }
      state.value = found->value;
      state.master = found->master;
      state.m = found->m;
      state.v = found->v;
    } else {
      state.value = View(memory.weights + place.value, dtype_, shape);
      state.master = View(memory.weights + place.master, DType::F32, shape);
      state.m = View(memory.optimizer + place.m, DType::F32, shape);
      state.v = View(memory.optimizer + place.v, DType::F32, shape);
    }
    parameters_.push_back(state);
  }

  std::size_t next = 0;
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
    entry.layer->bind(parameters, constants);
  }
}

void Stage::forward(ops::Compute& compute, const Pass& pass, Search search) {
  for (const Entry& entry : entries_) {
    const Call call(entry, pass, {});
    entry.layer->forward(compute, call);
    if (search == Search::NonFinite)
      search_non_finite(compute, entry.layer->spec(), call->y, "the output");
  }
}

void Stage::backward_input(ops::Compute& compute, const Pass& pass, Search search) {
  for (const Entry& entry : entries_ | std::views::reverse) {
    const Call call(entry, pass, entry.places->split);
    entry.layer->backward_input(compute, call);
    if (search == Search::NonFinite)
      search_non_finite(compute, entry.layer->spec(), call->dx, "the gradient");
  }
}

void Stage::backward_weight(ops::Compute& compute, const Pass& pass) {
  for (const Entry& entry : entries_ | std::views::reverse) {
    if (entry.layer->spec().parameters.empty()) continue;
    entry.layer->backward_weight(
        compute, Call(entry, pass, entry.places->split, pass.sum * state_.gradients));
  }
}

void Stage::backward(ops::Compute& compute, const Pass& pass, Search search) {
  for (const Entry& entry : entries_ | std::views::reverse) {
    const Call call(entry, pass, entry.places->fused, pass.sum * state_.gradients);
    entry.layer->backward_input(compute, call);
    if (search == Search::NonFinite)
      search_non_finite(compute, entry.layer->spec(), call->dx, "the gradient");
    if (!entry.layer->spec().parameters.empty()) entry.layer->backward_weight(compute, call);
  }
}

View Stage::tokens(const Frame& frame) const {
  if (position_ != plan::Position::Only && position_ != plan::Position::First) return {};
  return view_at(frame, entries_.front().places->x, entries_.front().layer->spec().x);
}

View Stage::targets(const Frame& frame) const {
  if (position_ != plan::Position::Only && position_ != plan::Position::Last) return {};
  const Entry& last = entries_.back();
  const auto& kept = last.layer->spec().kept_by_forward;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i].tensor.name == "targets") {
      return view_at(frame, last.places->kept_by_forward[i], kept[i].tensor);
    }
  }
  return {};
}

View Stage::losses(const Frame& frame) const {
  if (position_ != plan::Position::Only && position_ != plan::Position::Last) return {};
  return view_at(frame, entries_.back().places->y, entries_.back().layer->spec().y);
}

}  // namespace cleave::runtime
