#pragma once

#include <cstdint>
#include <span>

namespace cleave::ops {

struct SampleOptions {
  float temperature = 1;         // 0 takes the largest logit
  std::int64_t top_k = 0;        // only the k largest logits can be drawn; 0: all
  float top_p = 1;               // of those, the likeliest that have this probability together
  float min_p = 0;               // of those, what is at least this likely beside the likeliest
  float repetition_penalty = 1;  // divides the logits of tokens in `before`, or multiplies negative
};

/// Draws a token from softmax(logits / temperature) with one `uniform` number in [0, 1). The same
/// arguments always give the same token; equal logits rank by index. Allocates: not for a step.
std::int32_t sample(std::span<const float> logits, const SampleOptions& options, float uniform,
                    std::span<const std::int32_t> before = {});

}  // namespace cleave::ops
