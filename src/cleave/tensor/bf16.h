#pragma once

#include <bit>
#include <cstdint>

#include "cleave/tensor/view.h"

namespace cleave {

constexpr float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

/// Rounds to nearest, ties to even; a NaN stays a NaN. The vector kernels round the same way.
constexpr BFloat16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  // A NaN whose payload sits in the lower half would become infinite: set the quiet bit instead.
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace cleave
