#pragma once

#include <cstdint>
#include <string_view>

namespace cleave {

/// Formats of tensor elements. Token ids are I32.
enum class DType : std::uint8_t { F32, BF16, I32 };

constexpr std::int64_t size_of(DType dtype) {
  return dtype == DType::BF16 ? 2 : 4;
}

constexpr std::string_view to_string(DType dtype) {
  return dtype == DType::F32 ? "f32" : dtype == DType::BF16 ? "bf16" : "i32";
}

}  // namespace cleave
