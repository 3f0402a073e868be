#pragma once

#include <cstdint>
#include <initializer_list>

#include "cleave/tensor/bf16.h"
#include "cleave/tensor/view.h"

namespace cleave::ops::reference {

inline std::int64_t offset_of(const auto& view, std::initializer_list<std::int64_t> index) {
  std::int64_t offset = 0;
  int dim = 0;
  for (std::int64_t i : index) offset += i * view.stride(dim++);
  return offset;
}

/// The element of an f32 or bf16 view, one index per dim.
inline float get(ConstView view, std::initializer_list<std::int64_t> index) {
  const std::int64_t offset = offset_of(view, index);
  return view.dtype() == DType::BF16 ? to_float(view.as<BFloat16>()[offset])
                                     : view.as<float>()[offset];
}

/// Rounds to the dtype of the view.
inline void set(View view, std::initializer_list<std::int64_t> index, double value) {
  const std::int64_t offset = offset_of(view, index);
  if (view.dtype() == DType::BF16) {
    view.as<BFloat16>()[offset] = to_bf16(static_cast<float>(value));
  } else {
    view.as<float>()[offset] = static_cast<float>(value);
  }
}

}  // namespace cleave::ops::reference
