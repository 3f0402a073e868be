#pragma once

#include <cstdint>
#include <span>

namespace cleave::ops {

struct SampleOptions {
  float temperature = 1;   // 0 takes the largest logit
  std::int64_t top_k = 0;  // only the k largest logits can be drawn; 0: all
};

/// Draws a token from softmax(logits / temperature) with one `uniform` number in [0, 1). The same
/// arguments always give the same token; equal logits rank by index. Allocates: not for a step.
std::int32_t sample(std::span<const float> logits, const SampleOptions& options, float uniform);

}  // namespace cleave::ops
