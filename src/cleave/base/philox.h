#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace cleave {

/// Random numbers without a stream: the same key and index give the same bits on every device, in
/// every order. Philox4x32-10 (Salmon et al., SC'11).
class Philox {
 public:
  /// Keyed by what the numbers are for, so that no two uses ever share a sequence.
  Philox(std::uint64_t seed, std::string_view purpose, std::string_view name = {});

  /// Four independent 32-bit words for `index`.
  std::array<std::uint32_t, 4> block(std::uint64_t index) const;

  /// Uniform in [0, 1), 24 bits: exact in f32.
  float uniform(std::uint64_t index) const;

  /// Standard normal, Box-Muller in f64 rounded once.
  float normal(std::uint64_t index) const;

  /// normal(first), normal(first + 1), …, at a quarter of the cost.
  void fill_normal(std::uint64_t first, std::span<float> out) const;

  /// Uniform in [0, bound), biased by less than bound / 2^64; `bound` > 0.
  std::uint64_t below(std::uint64_t bound, std::uint64_t index) const;

  /// The bare generator, for the published test vectors.
  static std::array<std::uint32_t, 4> generate(std::array<std::uint32_t, 4> counter,
                                               std::array<std::uint32_t, 2> key);

 private:
  std::uint64_t key_;
  std::uint64_t stream_;
};

}  // namespace cleave
