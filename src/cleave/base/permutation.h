#pragma once

#include <array>
#include <cstdint>

#include "cleave/base/philox.h"

namespace cleave {

/// Random orders of 0 … size-1 that are computed, not stored: any position of any epoch at once.
///
/// A Feistel network of Philox rounds permutes the next even power of two; values past the end
/// are sent through again until they fall inside (cycle walking, on average fewer than 4 times).
class Permutation {
 public:
  /// `size` ≥ 1; the order follows from the seed and `purpose`.
  Permutation(std::uint64_t size, std::uint64_t seed, std::string_view purpose);

  std::uint64_t size() const { return size_; }

  /// What stands at `position` < size() in the order of `epoch`.
  std::uint64_t at(std::uint64_t epoch, std::uint64_t position) const;

 private:
  std::uint64_t shuffle(std::uint64_t epoch, std::uint64_t value) const;

  std::uint64_t size_;
  int half_bits_;
  std::array<std::uint32_t, 2> key_;
};

}  // namespace cleave
