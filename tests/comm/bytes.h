#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cleave::testing {

/// `count` bytes that depend on `seed`.
inline std::vector<std::byte> some_bytes(std::size_t count, std::uint32_t seed) {
  std::vector<std::byte> bytes(count);
  std::uint32_t state = seed * 2654435761u + 1;
  for (std::byte& b : bytes) {
    state = state * 1664525u + 1013904223u;
    b = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

}  // namespace cleave::testing
