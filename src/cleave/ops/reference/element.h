#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>

#include "cleave/tensor/view.h"

namespace cleave::ops::reference {

inline float widen(BFloat16 x) {
  return std::bit_cast<float>(std::uint32_t{x.bits} << 16);
}

/// To the nearest bf16, ties to even; NaN stays NaN.
inline BFloat16 narrow(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if (x != x) return {static_cast<std::uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
}

inline std::int64_t offset_of(const auto& view, std::initializer_list<std::int64_t> index) {
  std::int64_t offset = 0;
  int dim = 0;
  for (std::int64_t i : index) offset += i * view.stride(dim++);
  return offset;
}

/// The element of an f32 or bf16 view, one index per dim.
inline float get(ConstView view, std::initializer_list<std::int64_t> index) {
  const std::int64_t offset = offset_of(view, index);
  return view.dtype() == DType::BF16 ? widen(view.as<BFloat16>()[offset])
                                     : view.as<float>()[offset];
}

/// Rounds to the dtype of the view.
inline void set(View view, std::initializer_list<std::int64_t> index, double value) {
  const std::int64_t offset = offset_of(view, index);
  if (view.dtype() == DType::BF16) {
    view.as<BFloat16>()[offset] = narrow(static_cast<float>(value));
  } else {
    view.as<float>()[offset] = static_cast<float>(value);
  }
}

}  // namespace cleave::ops::reference
