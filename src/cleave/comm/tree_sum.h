#pragma once

#include <cstddef>
#include <span>

namespace cleave::comm {

/// Adds elements of one format. comm moves bytes; what they are is known here only.
class Adder {
 public:
  virtual ~Adder() = default;

  virtual std::size_t element_bytes() const = 0;

  /// out[i] = a[i] + b[i], rounded to the format, the same wherever i lies. `out` may be `a` or
  /// `b`.
  virtual void add(std::span<const std::byte> a, std::span<const std::byte> b,
                   std::span<std::byte> out) const = 0;
};

/// The one order in which cleave adds contributions that come from several places: a pairwise tree
/// over their index, every node rounded to the elements' own format.
///
///     0   1   2   3   4      parts
///     └─┬─┘   └─┬─┘   │
///       └───┬───┘     │      0+1, 2+3
///           └────┬────┘      (0+1)+(2+3)
///                            ((0+1)+(2+3))+4
///
/// Parts that are themselves sums over aligned blocks of 2^k neighbours give the same bits as all
/// the neighbours would: so a device may add up its own shards first. The parts are `bytes` long;
/// their contents are used up. The sum goes to `out`, which may be one of them.
void tree_sum(std::span<std::byte* const> parts, std::size_t bytes, const Adder& adder,
              std::byte* out);

}  // namespace cleave::comm
