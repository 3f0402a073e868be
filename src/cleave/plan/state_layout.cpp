#include "cleave/plan/state_layout.h"

#include <algorithm>
#include <utility>

namespace cleave::plan {
namespace {

std::int64_t take(std::int64_t& end, std::int64_t elements, DType dtype) {
  return std::exchange(end, end + aligned(elements * size_of(dtype)));
}

/// The flat order: as the layers have them, what is borrowed last.
SegmentState order(const SegmentSpec& segment, std::span<const std::string> resident) {
  SegmentState state;
  for (const LayerSpec& layer : segment.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      const bool borrowed = std::ranges::find(resident, parameter.tied_to) != resident.end();
      state.parameters.push_back({.spec = &parameter, .borrowed = borrowed});
    }
  }
  for (const bool borrowed : {false, true}) {
    for (ParameterPlace& place : state.parameters) {
      if (place.borrowed != borrowed) continue;
      const std::int64_t grains = (place.spec->elements() + kParameterGrain - 1) / kParameterGrain;
      place.at = std::exchange(state.elements, state.elements + grains * kParameterGrain);
    }
    if (!borrowed) state.owned = state.elements;
  }
  return state;
}

void add_constants(const SegmentSpec& segment, StateLayout& layout) {
  for (const LayerSpec& layer : segment.layers) {
    for (const TensorSpec& sum : layer.sums) {
      layout.sums.push_back({&sum, std::exchange(layout.weights, layout.weights + sum.bytes())});
    }
    for (const TensorSpec& constant : layer.constants) {
      const bool known = std::ranges::any_of(
          layout.constants, [&](const ConstantPlace& c) { return c.spec->name == constant.name; });
      if (known) continue;
      layout.constants.push_back(
          {&constant, std::exchange(layout.weights, layout.weights + constant.bytes())});
    }
  }
}

}  // namespace

StateLayout layout_state(std::span<const SegmentSpec> segments, const StateOptions& options) {
  StateLayout layout;
  for (const SegmentSpec& segment : segments) {
    SegmentState state = order(segment, options.resident);
    state.values = take(layout.weights, state.owned, options.dtype);
    state.masters =
        options.dtype == DType::F32 ? state.values : take(layout.weights, state.owned, DType::F32);
    state.gradients = take(layout.gradients, options.sums * state.elements, DType::F32);
    state.m = take(layout.optimizer, state.owned, DType::F32);
    state.v = take(layout.optimizer, state.owned, DType::F32);
    layout.segments.push_back(std::move(state));
    add_constants(segment, layout);
  }
  return layout;
}

}  // namespace cleave::plan
