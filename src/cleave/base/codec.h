#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "cleave/base/philox.h"

namespace cleave {

/// What decides which way numbers are rounded: number i of a tensor goes by number `first` + i.
struct Chance {
  const Philox& random;
  std::uint64_t first = 0;

  float uniform(std::uint64_t index) const { return random.uniform(first + index); }
};

/// How the numbers of a tensor travel: a row of a table. A codec changes bytes, never what they
/// are.
struct Codec {
  std::string_view name;
  /// How many neighbours have bytes of their own; 0: a tensor is encoded as (place, value) in the
  /// order of places, in 32 bits each.
  std::int64_t block = 1;
  bool keeps_error = false;  ///< what it left out is added to the next numbers
  std::int64_t (*bytes)(std::int64_t elements) = nullptr;
  /// `out` has bytes(values.size()) bytes.
  void (*encode)(std::span<const float> values, Chance chance, std::span<std::byte> out) = nullptr;
  void (*decode)(std::span<const std::byte> in, std::span<float> values) = nullptr;
};

/// none (f32), bf16, int8 (blocks of 64 with an f32 scale), int4 (blocks of 32 with an f32 scale),
/// topk (the tenth of the numbers that is largest, with their places). Rounding to int8 and int4 is
/// stochastic: right in the mean, and a function of `chance`.
std::span<const Codec> codecs();

/// Null if there is none of that name; "int8/64" says the block as well.
const Codec* find_codec(std::string_view name);

}  // namespace cleave
