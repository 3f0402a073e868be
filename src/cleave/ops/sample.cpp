#include "cleave/ops/sample.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/base/elementary.h"

namespace cleave::ops {
namespace {

using TokenList = std::vector<std::int32_t>;

/// Each token that came before is made less likely once, however often it came.
std::vector<float> penalised(std::span<const float> logits, float penalty,
                             std::span<const std::int32_t> before) {
  std::vector<float> out(logits.begin(), logits.end());
  if (penalty == 1) return out;
  for (const std::int32_t token : before) {
    const float logit = logits[token];
    out[token] = logit > 0 ? logit / penalty : logit * penalty;
  }
  return out;
}

/// The likeliest tokens whose probabilities add up to `share`, at least one; in order of index.
template <class Weight, class Before>
void keep_share(TokenList& tokens, double share, Weight weight, Before ranks_before) {
  std::sort(tokens.begin(), tokens.end(), ranks_before);
  double total = 0;
  for (const std::int32_t token : tokens) total += weight(token);
  double sum = 0;
  std::size_t kept = 0;
  while (kept < tokens.size() && (kept == 0 || sum < share * total)) sum += weight(tokens[kept++]);
  tokens.resize(kept);
  std::sort(tokens.begin(), tokens.end());
}

}  // namespace

std::int32_t sample(std::span<const float> raw, const SampleOptions& options, float uniform,
                    std::span<const std::int32_t> before) {
  CLEAVE_CHECK(!raw.empty() && options.temperature >= 0 && options.top_k >= 0, "sample from ",
               raw.size(), " logits at temperature ", options.temperature, ", top_k ",
               options.top_k);
  const std::vector<float> logits = penalised(raw, options.repetition_penalty, before);
  TokenList tokens(logits.size());
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
  if (options.top_p < 1) keep_share(tokens, options.top_p, weight, ranks_before);
  if (options.min_p > 0) {
    std::erase_if(tokens, [&](std::int32_t token) { return weight(token) < options.min_p; });
  }
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
