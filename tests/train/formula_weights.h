#pragma once

#include <algorithm>
#include <span>
#include <string>

#include "cleave/engine/run/device.h"

namespace cleave::train {

/// Weights by the formula of the scripts that make golden losses: tensor k (by name), element i:
/// ((1664525 i + 1013904223 (k + 1)) mod 2^24) / 2^24 - 1/2, over 4; norms + 1.
inline void set_formula_weights(engine::Device& device, std::span<const std::string> names) {
  for (const engine::TensorState& tensor : device.tensors()) {
    if (!tensor.trained()) continue;  // of those no loss depends on the value
    const auto k =
        static_cast<std::uint64_t>(std::ranges::find(names, tensor.name) - names.begin());
    const bool norm = tensor.master.rank() == 1 && tensor.name.ends_with(".weight");
    for (std::int64_t i = 0; i < tensor.master.elements(); ++i) {
      const std::uint64_t u =
          (static_cast<std::uint64_t>(i) * 1664525 + 1013904223ull * (k + 1)) % (1ull << 24);
      const float w = (static_cast<float>(u) / 0x1p24f - 0.5f) / 4;
      tensor.master.as<float>()[i] = norm ? w + 1 : w;
    }
  }
  device.refresh_values();
}

}  // namespace cleave::train
