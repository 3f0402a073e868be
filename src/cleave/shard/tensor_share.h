#pragma once

#include <cstdint>

namespace cleave {

/// Where part `index` of `parts` begins among `rows`. Parts of parts have the same borders.
inline std::int64_t row_border(std::int64_t rows, std::int64_t index, std::int64_t parts) {
  return rows * index / parts;
}

/// What one device computes of every layer. A layer is cut into `shards` of the logical grid, which
/// fix every order of summation; each of `devices` runs shards() / devices neighbours of them.
struct TensorShare {
  int shards = 1;   ///< of the logical grid: `devices`, or a power of two that it divides
  int devices = 1;  ///< the tensor axis of the mesh
  int rank = 0;     ///< which of the devices
  bool sequence_parallel = false;  ///< norms and residuals hold only the device's own tokens
  /// Whether slices and devices may have a row more than others: in a microbatch that has fewer
  /// rows than there is room for. Borders are then the whole parts of equal ones.
  bool uneven = false;

  bool whole() const { return shards == 1; }
  int local() const { return shards / devices; }
  int first() const { return rank * local(); }
  /// Whether norms and residuals are divided.
  bool divides_tokens() const { return sequence_parallel && devices > 1; }
  std::int64_t own_tokens(std::int64_t tokens) const {
    return divides_tokens()
               ? row_border(tokens, rank + 1, devices) - row_border(tokens, rank, devices)
               : tokens;
  }

  friend bool operator==(const TensorShare&, const TensorShare&) = default;
};

}  // namespace cleave
