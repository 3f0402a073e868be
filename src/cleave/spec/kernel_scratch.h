#pragma once

#include <algorithm>
#include <cstdint>

#include "cleave/base/units.h"

namespace cleave {

/// Scratch that the element-wise kernels take from a device, known before anything runs.
///
/// Norm backward sums its weight gradient over tokens: in slices of whole tokens, each slice into
/// a partial sum of its own, the partial sums then added in slice order. The slices depend on the
/// number of tokens alone, never on threads, so the order of the sum does not either.
struct TokenSlices {
  std::int64_t count;
  std::int64_t tokens;  // in each slice but the last, which may be shorter

  static constexpr std::int64_t kMax = 32;
  static constexpr std::int64_t kMinTokens = 32;
};

constexpr TokenSlices token_slices(std::int64_t tokens) {
  const std::int64_t longest =
      std::max(TokenSlices::kMinTokens, (tokens + TokenSlices::kMax - 1) / TokenSlices::kMax);
  return {(tokens + longest - 1) / longest, longest};
}

/// Partial sums of dweight and dbias, f32 [slices, 2, hidden].
constexpr std::int64_t layernorm_backward_scratch_bytes(std::int64_t tokens, std::int64_t hidden) {
  return aligned(token_slices(tokens).count * 2 * hidden * 4);
}

/// Partial sums of dweight, f32 [slices, hidden].
constexpr std::int64_t rmsnorm_backward_scratch_bytes(std::int64_t tokens, std::int64_t hidden) {
  return aligned(token_slices(tokens).count * hidden * 4);
}

}  // namespace cleave
