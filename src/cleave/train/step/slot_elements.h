#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "cleave/base/check.h"
#include "cleave/engine/stage/tensor_state.h"

namespace cleave::train {

inline View slot_of(const engine::TensorState& tensor, std::string_view name) {
  const auto found = std::ranges::find(tensor.slots, name, &engine::SlotState::name);
  CLEAVE_CHECK(found != tensor.slots.end(), tensor.name, " has no slot ", name);
  return found->values;
}

/// The elements of a view of a tensor that is whole on this device.
inline std::span<float> whole_elements(const engine::TensorState& tensor, View view) {
  const bool whole = tensor.dim == 0 || view.stride(0) == view.size(1);
  CLEAVE_CHECK(whole, tensor.name, " is not in one run");
  return {view.as<float>(), static_cast<std::size_t>(tensor.elements())};
}

/// Calls visit(pointers, first, elements) on every run of neighbours, which all of `views` have
/// alike; `first` is the place of the run's first element in the whole tensor.
template <std::size_t N, class Visit>
void for_each_joint_run(const engine::TensorState& tensor, const std::array<View, N>& views,
                        Visit&& visit) {
  std::int64_t run = 0;
  tensor.for_each_run(views[0], [&](std::int64_t first, std::span<float> elements) {
    std::array<float*, N> at;
    for (std::size_t i = 0; i < N; ++i)
      at[i] = views[i].template as<float>() + (tensor.dim != 0 ? run * views[i].stride(0) : 0);
    visit(at, first, std::ssize(elements));
    ++run;
  });
}

inline void copy_elements(const engine::TensorState& tensor, View from, View to) {
  for_each_joint_run<2>(tensor, {from, to}, [](const auto& at, std::int64_t, std::int64_t length) {
    std::copy_n(at[0], length, at[1]);
  });
}

inline void clear_elements(const engine::TensorState& tensor, View slot) {
  for_each_joint_run<1>(tensor, {slot}, [](const auto& at, std::int64_t, std::int64_t length) {
    std::fill_n(at[0], length, 0.0f);
  });
}

}  // namespace cleave::train
