#pragma once

#include <bit>
#include <cstdint>

namespace cleave::checkpoint {

/// An f16 has five bits of exponent and ten of mantissa; every one of them is an f32.
inline float widen_half(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half} >> 15 << 31;
  const std::uint32_t exponent = half >> 10 & 0x1f;
  const std::uint32_t mantissa = half & 0x3ff;
  if (exponent == 0) {  // zero, or so small that it has no leading one
    const float small = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -small : small;
  }
  const std::uint32_t widened = exponent == 0x1f ? 0xff : exponent + (127 - 15);
  return std::bit_cast<float>(sign | widened << 23 | mantissa << 13);
}

}  // namespace cleave::checkpoint
