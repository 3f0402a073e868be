#pragma once

namespace cleave::plan {

// Bytes, as the measured systems train: bf16 values, f32 gradients.
inline constexpr double kElement = 2;
inline constexpr double kGradient = 4;

}  // namespace cleave::plan
