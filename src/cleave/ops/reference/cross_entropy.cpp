#include "cleave/ops/reference/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cleave/ops/reference/element.h"

namespace cleave::ops::reference {

void cross_entropy(ConstView logits, ConstView targets, View losses, View lse) {
  for (std::int64_t t = 0; t < logits.size(0); ++t) {
    double max = -std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < logits.size(1); ++i) {
      max = std::max<double>(max, get(logits, {t, i}));
    }
    double sum = 0;
    for (std::int64_t i = 0; i < logits.size(1); ++i) sum += std::exp(get(logits, {t, i}) - max);
    const double log_sum = max + std::log(sum);
    const std::int32_t target = targets.as<std::int32_t>()[t];
    set(lse, {t}, log_sum);
    set(losses, {t}, target < 0 ? 0 : log_sum - get(logits, {t, target}));
  }
}

void hits(ConstView logits, ConstView targets, View hits) {
  for (std::int64_t t = 0; t < logits.size(0); ++t) {
    const std::int32_t target = targets.as<std::int32_t>()[t];
    bool highest = target >= 0;
    for (std::int64_t i = 0; i < logits.size(1) && highest; ++i) {
      const double above = get(logits, {t, i}) - get(logits, {t, target});
      highest = i < target ? above < 0 : above <= 0;
    }
    set(hits, {t}, highest ? 1 : 0);
  }
}

void cross_entropy_backward(View logits, ConstView targets, ConstView lse, float scale) {
  for (std::int64_t t = 0; t < logits.size(0); ++t) {
    const std::int32_t target = targets.as<std::int32_t>()[t];
    for (std::int64_t i = 0; i < logits.size(1); ++i) {
      const double p = std::exp(static_cast<double>(get(logits, {t, i})) - get(lse, {t}));
      set(logits, {t, i}, target < 0 ? 0 : (p - (i == target ? 1 : 0)) * scale);
    }
  }
}

}  // namespace cleave::ops::reference
