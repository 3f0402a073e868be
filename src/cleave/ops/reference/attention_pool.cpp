#include "cleave/ops/reference/attention_pool.h"

#include <cmath>
#include <vector>

#include "cleave/ops/reference/element.h"

namespace cleave::ops::reference {

void attention_pool(const PoolShape& shape, ConstView q, ConstView kv, View y, View p) {
  const double factor = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  for (std::int64_t s = 0; s < shape.sequences; ++s) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      std::vector<double> weight(shape.sequence);
      double sum = 0;
      for (std::int64_t t = 0; t < shape.sequence; ++t) {
        double score = 0;
        for (std::int64_t i = h * shape.head_dim; i < (h + 1) * shape.head_dim; ++i)
          score += static_cast<double>(get(q, {i}) * get(kv, {s * shape.sequence + t, i}));
        sum += weight[t] = std::exp(score * factor);
      }
      for (std::int64_t t = 0; t < shape.sequence; ++t) set(p, {s, h, t}, weight[t] / sum);
      for (std::int64_t i = h * shape.head_dim; i < (h + 1) * shape.head_dim; ++i) {
        double value = 0;
        for (std::int64_t t = 0; t < shape.sequence; ++t)
          value += weight[t] / sum *
                   static_cast<double>(get(kv, {s * shape.sequence + t, shape.features() + i}));
        set(y, {s, i}, value);
      }
    }
  }
}

// d y_i / d score_t = p_t · (value_ti - y_i), element by element.
void attention_pool_backward(const PoolShape& shape, const PoolGradient& at) {
  const double factor = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  std::vector<double> dq(shape.features(), 0);
  for (std::int64_t s = 0; s < shape.sequences; ++s) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      for (std::int64_t t = 0; t < shape.sequence; ++t) {
        const std::int64_t row = s * shape.sequence + t;
        double dscore = 0;
        for (std::int64_t i = h * shape.head_dim; i < (h + 1) * shape.head_dim; ++i) {
          const double dy = get(at.dy, {s, i});
          double y = 0;
          for (std::int64_t u = 0; u < shape.sequence; ++u)
            y += static_cast<double>(get(at.p, {s, h, u}) *
                                     get(at.kv, {s * shape.sequence + u, shape.features() + i}));
          const double p = get(at.p, {s, h, t});
          dscore += dy * p * (static_cast<double>(get(at.kv, {row, shape.features() + i})) - y);
          set(at.dkv, {row, shape.features() + i}, p * dy);
        }
        for (std::int64_t i = h * shape.head_dim; i < (h + 1) * shape.head_dim; ++i) {
          set(at.dkv, {row, i}, dscore * factor * static_cast<double>(get(at.q, {i})));
          dq[i] += dscore * factor * static_cast<double>(get(at.kv, {row, i}));
        }
      }
    }
  }
  for (std::int64_t i = 0; i < shape.features(); ++i) set(at.dq, {i}, dq[i]);
}

}  // namespace cleave::ops::reference
