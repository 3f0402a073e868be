#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "cleave/comm/tree_sum.h"

namespace cleave::testing {

/// Adds f32, one after another.
class F32Adder final : public comm::Adder {
 public:
  std::size_t element_bytes() const override { return 4; }
  void add(std::span<const std::byte> a, std::span<const std::byte> b,
           std::span<std::byte> out) const override {
    for (std::size_t i = 0; i < out.size(); i += 4) {
      float x = 0, y = 0;
      std::memcpy(&x, &a[i], 4);
      std::memcpy(&y, &b[i], 4);
      const float sum = x + y;
      std::memcpy(&out[i], &sum, 4);
    }
  }
};

/// Adds bf16 in f32 and rounds to nearest, ties to even.
class Bf16Adder final : public comm::Adder {
 public:
  std::size_t element_bytes() const override { return 2; }
  void add(std::span<const std::byte> a, std::span<const std::byte> b,
           std::span<std::byte> out) const override {
    for (std::size_t i = 0; i < out.size(); i += 2) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(load(&a[i]) + load(&b[i]));
      const auto rounded = static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
      std::memcpy(&out[i], &rounded, 2);
    }
  }

 private:
  static float load(const std::byte* at) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, at, 2);
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
  }
};

}  // namespace cleave::testing
