#pragma once

#include <cstdint>

namespace cleave {

/// What one device computes of every layer. A layer is cut into `shards` of the logical grid, which
/// fix every order of summation; each of `devices` runs shards() / devices neighbours of them.
struct TensorShare {
  int shards = 1;   ///< of the logical grid: `devices`, or a power of two that it divides
  int devices = 1;  ///< the tensor axis of the mesh
  int rank = 0;     ///< which of the devices
  bool sequence_parallel = false;  ///< norms and residuals hold only the device's own tokens

  bool whole() const { return shards == 1; }
  int local() const { return shards / devices; }
  int first() const { return rank * local(); }
  /// Whether norms and residuals are divided.
  bool divides_tokens() const { return sequence_parallel && devices > 1; }
  std::int64_t own_tokens(std::int64_t tokens) const {
    return divides_tokens() ? tokens / devices : tokens;
  }

  friend bool operator==(const TensorShare&, const TensorShare&) = default;
};

}  // namespace cleave
