#include "cleave/ops/reference/attention.h"

#include <cmath>
#include <limits>
#include <vector>

#include "cleave/ops/reference/element.h"

namespace cleave::ops::reference {
namespace {

struct Row {
  std::int64_t first;  // token at which the sequence begins
  std::int64_t position;
  std::int64_t head, kv_head;
};

template <class Fn>
void for_rows(const AttentionShape& shape, const Fn& fn) {
  for (std::int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      for (std::int64_t position = 0; position < shape.sequence; ++position) {
        fn(Row{sequence * shape.sequence, position, head, head / shape.group()}, sequence);
      }
    }
  }
}

double dot(ConstView a, std::int64_t a_token, std::int64_t a_head, ConstView b,
           std::int64_t b_token, std::int64_t b_head) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.size(2); ++i) {
    sum += static_cast<double>(get(a, {a_token, a_head, i})) * get(b, {b_token, b_head, i});
  }
  return sum;
}

double scale_of(const AttentionShape& shape) {
  return shape.scale > 0 ? static_cast<double>(shape.scale)
                         : 1 / std::sqrt(static_cast<double>(shape.head_dim));
}

/// Whether the query of `row` sees `key`, as the masks are defined.
bool sees(const AttentionShape& shape, ConstView begins, const Row& row, std::int64_t key) {
  const std::int64_t position = row.position;
  const auto document = [&](std::int64_t at) { return begins.as<std::int32_t>()[row.first + at]; };
  if (begins && document(position) != document(key)) return false;
  if (shape.mask == AttentionMask::Full) return true;
  if (shape.mask == AttentionMask::Window && key <= position - shape.window) return false;
  return key <= position;
}

/// The scores of all keys of the sequence: scaled, capped, and −∞ for those that the row does not
/// see.
std::vector<double> scores(const AttentionShape& shape, ConstView q, ConstView k, ConstView begins,
                           const Row& row) {
  std::vector<double> out(shape.sequence, -std::numeric_limits<double>::infinity());
  for (std::int64_t key = 0; key < shape.sequence; ++key) {
    if (!sees(shape, begins, row, key)) continue;
    const double score = scale_of(shape) * dot(q, row.first + row.position, row.head, k,
                                               row.first + key, row.kv_head);
    const double cap = static_cast<double>(shape.cap);
    out[key] = cap > 0 ? cap * std::tanh(score / cap) : score;
  }
  return out;
}

/// d score / d (scale · q · k).
double slope_of(const AttentionShape& shape, double score) {
  if (shape.cap <= 0 || std::isinf(score)) return 1;
  const double t = score / static_cast<double>(shape.cap);
  return 1 - t * t;
}

double log_sum(const std::vector<double>& s) {
  double sum = 0;
  for (double x : s) sum += std::exp(x);
  return std::log(sum);
}

}  // namespace

void attention(const AttentionShape& shape, ConstView q, ConstView k, ConstView v, View out,
               View lse, ConstView begins) {
  for_rows(shape, [&](const Row& row, std::int64_t sequence) {
    const std::vector<double> s = scores(shape, q, k, begins, row);
    const double total = log_sum(s);
    set(lse, {sequence, row.head, row.position}, total);
    std::vector<double> p(s);
    for (double& x : p) x = std::exp(x - total);
    for (std::int64_t i = 0; i < shape.head_dim; ++i) {
      double sum = 0;
      for (std::int64_t key = 0; key < shape.sequence; ++key) {
        sum += p[key] * get(v, {row.first + key, row.kv_head, i});
      }
      set(out, {row.first + row.position, row.head, i}, sum);
    }
  });
}

void attention_backward(const AttentionShape& shape, const AttentionGradient& at) {
  const std::int64_t kv_row = shape.kv_heads * shape.head_dim;
  std::vector<double> dk(shape.tokens() * kv_row);
  std::vector<double> dv(shape.tokens() * kv_row);
  for_rows(shape, [&](const Row& row, std::int64_t) {
    const std::int64_t token = row.first + row.position;
    const std::vector<double> s = scores(shape, at.q, at.k, at.begins, row);
    const double total = log_sum(s);
    std::vector<double> dp(s.size());
    double delta = 0;
    for (std::size_t key = 0; key < s.size(); ++key) {
      dp[key] = dot(at.dout, token, row.head, at.v, row.first + std::int64_t(key), row.kv_head);
      delta += std::exp(s[key] - total) * dp[key];
    }
    std::vector<double> p(s.size());
    std::vector<double> ds(s.size());
    for (std::size_t key = 0; key < s.size(); ++key) {
      p[key] = std::exp(s[key] - total);
      ds[key] = scale_of(shape) * slope_of(shape, s[key]) * p[key] * (dp[key] - delta);
    }
    for (std::int64_t i = 0; i < shape.head_dim; ++i) {
      double dq = 0;
      for (std::int64_t key = 0; key < shape.sequence; ++key) {
        const std::int64_t offset = (row.first + key) * kv_row + row.kv_head * shape.head_dim + i;
        dq += ds[key] * get(at.k, {row.first + key, row.kv_head, i});
        dk[offset] += ds[key] * get(at.q, {token, row.head, i});
        dv[offset] += p[key] * get(at.dout, {token, row.head, i});
      }
      set(at.dq, {token, row.head, i}, dq);
    }
  });
  for (std::int64_t token = 0; token < shape.tokens(); ++token) {
    for (std::int64_t head = 0; head < shape.kv_heads; ++head) {
      for (std::int64_t i = 0; i < shape.head_dim; ++i) {
        const std::int64_t offset = token * kv_row + head * shape.head_dim + i;
        set(at.dk, {token, head, i}, dk[offset]);
        set(at.dv, {token, head, i}, dv[offset]);
      }
    }
  }
}

}  // namespace cleave::ops::reference
