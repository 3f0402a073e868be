#include "cleave/plan/state_layout.h"

#include <algorithm>
#include <utility>

namespace cleave::plan {
namespace {

std::int64_t take(std::int64_t& end, std::int64_t elements, DType dtype) {
  return std::exchange(end, end + aligned(elements * size_of(dtype)));
}

}  // namespace

StateLayout layout_state(std::span<const SegmentSpec> segments, DType dtype,
                         std::span<const std::string> resident) {
  StateLayout layout;
  for (const SegmentSpec& segment : segments) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters) {
        ParameterPlace place{.spec = &parameter};
        const std::int64_t count = parameter.elements();
        place.gradient = take(layout.gradients, count, DType::F32);
        place.borrowed = std::ranges::find(resident, parameter.tied_to) != resident.end();
        if (!place.borrowed) {
          place.value = take(layout.weights, count, dtype);
          place.master =
              dtype == DType::F32 ? place.value : take(layout.weights, count, DType::F32);
          place.m = take(layout.optimizer, count, DType::F32);
          place.v = take(layout.optimizer, count, DType::F32);
        }
        layout.parameters.push_back(place);
      }
      for (const TensorSpec& constant : layer.constants) {
        const bool known = std::ranges::any_of(layout.constants, [&](const ConstantPlace& c) {
          return c.spec->name == constant.name;
        });
        if (!known)
          layout.constants.push_back(
              {&constant, std::exchange(layout.weights, layout.weights + constant.bytes())});
      }
    }
  }
  return layout;
}

}  // namespace cleave::plan
