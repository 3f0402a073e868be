#include "cleave/ops/attention_pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cleave/base/elementary.h"
#include "cleave/ops/device/pairs.h"
#include "cleave/ops/element_rows.h"
#include "cleave/ops/simd/rows.h"

namespace cleave::ops {
namespace {

void check_pool(const PoolShape& shape, ConstView q, ConstView kv, ConstView y, ConstView p) {
  check_float("pooled kv", kv);
  check_view("pooled q", q, DType::F32, {shape.features()});
  check_view("pooled kv", kv, kv.dtype(), {shape.sequences * shape.sequence, 2 * shape.features()});
  check_view("pooled y", y, kv.dtype(), {shape.sequences, shape.features()});
  check_view("pooled p", p, DType::F32, {shape.sequences, shape.heads, shape.sequence});
}

double score_factor(const PoolShape& shape) {
  return 1 / std::sqrt(static_cast<double>(shape.head_dim));
}

/// One head of one sequence.
struct PooledHead {
  PooledHead(const PoolShape& pool, std::int64_t sequence, std::int64_t head)
      : shape(pool), first(sequence * pool.sequence), column(head * pool.head_dim) {}

  ConstRow key(ConstView kv, std::int64_t row) const { return {kv, first + row, column}; }
  ConstRow value(ConstView kv, std::int64_t row) const {
    return {kv, first + row, shape.features() + column};
  }

  const PoolShape& shape;
  std::int64_t first;   ///< row of keys and values
  std::int64_t column;  ///< of its features
};

double product(const ConstRow& row, const auto& at, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += row.at(i) * at(i);
  return sum;
}

/// p = softmax of the scores.
void weigh(const PooledHead& head, const float* q, ConstView kv, float* p) {
  const PoolShape& shape = head.shape;
  float largest = -std::numeric_limits<float>::infinity();
  for (std::int64_t row = 0; row < shape.sequence; ++row) {
    const double score = product(
        head.key(kv, row), [&](std::int64_t i) { return static_cast<double>(q[i]); },
        shape.head_dim);
    p[row] = static_cast<float>(score * score_factor(shape));
    largest = std::max(largest, p[row]);
  }
  double sum = 0;
  for (std::int64_t row = 0; row < shape.sequence; ++row) {
    p[row] = static_cast<float>(exponential(static_cast<double>(p[row]) - largest));
    sum += static_cast<double>(p[row]);
  }
  for (std::int64_t row = 0; row < shape.sequence; ++row)
    p[row] = static_cast<float>(static_cast<double>(p[row]) / sum);
}

void pool_values(const PooledHead& head, const float* p, ConstView kv, const Row& y) {
  for (std::int64_t i = 0; i < head.shape.head_dim; ++i) {
    double sum = 0;
    for (std::int64_t row = 0; row < head.shape.sequence; ++row)
      sum += static_cast<double>(p[row]) * head.value(kv, row).at(i);
    y.set(i, sum);
  }
}

/// Gradients of one head of one sequence; adds to its dq.
void pool_gradient(const PooledHead& head, const PoolGradient& at, const float* p,
                   const ConstRow& dy, float* dq) {
  const PoolShape& shape = head.shape;
  const float* q = at.q.as<float>() + head.column;
  const auto slope = [&](std::int64_t i) { return dy.at(i); };
  double mean = 0;  // of <dy, value>, by weight
  for (std::int64_t row = 0; row < shape.sequence; ++row)
    mean += static_cast<double>(p[row]) * product(head.value(at.kv, row), slope, shape.head_dim);
  for (std::int64_t row = 0; row < shape.sequence; ++row) {
    const double weight = p[row];
    const double dscore = weight * (product(head.value(at.kv, row), slope, shape.head_dim) - mean) *
                          score_factor(shape);
    const ConstRow key = head.key(at.kv, row);
    const Row dkey(at.dkv, head.first + row, head.column);
    const Row dvalue(at.dkv, head.first + row, shape.features() + head.column);
    for (std::int64_t i = 0; i < shape.head_dim; ++i) {
      dq[i] += static_cast<float>(dscore * key.at(i));
      dkey.set(i, dscore * static_cast<double>(q[i]));
      dvalue.set(i, weight * dy.at(i));
    }
  }
}

}  // namespace

void attention_pool(Compute& compute, const PoolShape& shape, ConstView q, ConstView kv, View y,
                    View p) {
  check_pool(shape, q, kv, y, p);
  if (Accelerator* device = compute.accelerator())
    return device::attention_pool(*device, shape, q, kv, y, p);
  parallel_for(compute, shape.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = begin; h < end; ++h) {
      for (std::int64_t s = 0; s < shape.sequences; ++s) {
        const PooledHead head(shape, s, h);
        float* weights = p.as<float>() + (s * shape.heads + h) * shape.sequence;
        weigh(head, q.as<float>() + head.column, kv, weights);
        pool_values(head, weights, kv, Row(y, s, head.column));
      }
    }
  });
}

void attention_pool_backward(Compute& compute, const PoolShape& shape, const PoolGradient& at) {
  check_pool(shape, at.q, at.kv, at.dy, at.p);
  check_view("pooled dkv", at.dkv, at.kv.dtype(), at.kv.shape());
  check_view("pooled dq", at.dq, DType::F32, {shape.features()});
  if (Accelerator* device = compute.accelerator())
    return device::attention_pool_backward(*device, shape, at);
  parallel_for(compute, shape.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = begin; h < end; ++h) {
      float* dq = at.dq.as<float>() + h * shape.head_dim;
      std::fill(dq, dq + shape.head_dim, 0.0f);
      for (std::int64_t s = 0; s < shape.sequences; ++s) {
        const PooledHead head(shape, s, h);
        pool_gradient(head, at, at.p.as<float>() + (s * shape.heads + h) * shape.sequence,
                      ConstRow(at.dy, s, head.column), dq);
      }
    }
  });
}

}  // namespace cleave::ops
