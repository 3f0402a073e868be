#include "cleave/ops/sample.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/base/elementary.h"

namespace cleave::ops {

std::int32_t sample(std::span<const float> logits, const SampleOptions& options, float uniform) {
  CLEAVE_CHECK(!logits.empty() && options.temperature >= 0 && options.top_k >= 0, "sample from ",
               logits.size(), " logits at temperature ", options.temperature, ", top_k ",
               options.top_k);
  std::vector<std::int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto ranks_before = [&](std::int32_t a, std::int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  const auto best = *std::min_element(tokens.begin(), tokens.end(), ranks_before);
  if (options.temperature == 0) return best;

  if (options.top_k > 0 && options.top_k < static_cast<std::int64_t>(tokens.size())) {
    std::nth_element(tokens.begin(), tokens.begin() + options.top_k, tokens.end(), ranks_before);
    tokens.resize(options.top_k);
    // nth_element leaves them in an order of the library's own.
    std::sort(tokens.begin(), tokens.end());
  }
  const auto weight = [&](std::int32_t token) {
    return exponential((static_cast<double>(logits[token]) - logits[best]) / options.temperature);
  };
  double total = 0;
  for (std::int32_t token : tokens) total += weight(token);
  double left = uniform * total;
  for (std::int32_t token : tokens) {
    left -= weight(token);
    if (left < 0) return token;
  }
  // Rounding only: `uniform` is below 1.
  return best;
}

}  // namespace cleave::ops
