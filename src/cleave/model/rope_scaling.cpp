#include "cleave/model/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cleave/base/elementary.h"

namespace cleave::model {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

/// How often a pair of `frequency` turns around within the original context.
double turns(double frequency, const RopeScaling& scaling) {
  return scaling.original_context * frequency / kTurn;
}

double llama3_frequency(double frequency, const RopeScaling& scaling) {
  const double slow = frequency / scaling.factor;
  const double around = turns(frequency, scaling);
  if (around < scaling.low_freq_factor) return slow;
  if (around > scaling.high_freq_factor) return frequency;
  const double share =
      (around - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - share) * slow + share * frequency;
}

/// The pair, counted in halves of dims, that turns `count` times within the original context.
double pair_with_turns(double count, double theta, double dims, const RopeScaling& scaling) {
  return dims * natural_log(scaling.original_context / (count * kTurn)) / (2 * natural_log(theta));
}

void stretch_by_yarn(double theta, std::int64_t dims, const RopeScaling& scaling,
                     std::vector<double>& frequencies) {
  const auto width = static_cast<double>(dims);
  double low = pair_with_turns(scaling.beta_fast, theta, width, scaling);
  double high = pair_with_turns(scaling.beta_slow, theta, width, scaling);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1);
  if (low == high) high += 0.001;  // as Hugging Face has it
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double slow = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / scaling.factor * slow + frequencies[i] * (1 - slow);
  }
}

}  // namespace

Rope scaled_rope(double theta, std::int64_t dims, const RopeScaling& scaling) {
  // As Hugging Face does, the base is rounded to f32 first.
  const double base = static_cast<float>(theta);
  Rope rope{.frequencies = rope_frequencies(base, dims)};
  switch (scaling.kind) {
    case RopeScaling::Kind::None:
    case RopeScaling::Kind::Dynamic:  // no sequence is longer than the context
      break;
    case RopeScaling::Kind::Linear:
      for (double& frequency : rope.frequencies) frequency /= scaling.factor;
      break;
    case RopeScaling::Kind::Llama3:
      for (double& frequency : rope.frequencies) frequency = llama3_frequency(frequency, scaling);
      break;
    case RopeScaling::Kind::Yarn:
      stretch_by_yarn(theta, dims, scaling, rope.frequencies);
      rope.magnitude = scaling.attention_factor;
      break;
  }
  return rope;
}

}  // namespace cleave::model
