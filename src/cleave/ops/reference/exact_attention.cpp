#include <algorithm>
#include <cmath>
#include <vector>

#include "cleave/ops/reference/element.h"
#include "cleave/ops/reference/exact.h"

namespace cleave::ops::reference::exact {
namespace {

float rounded(float value, DType dtype) {
  return dtype == DType::BF16 ? to_float(to_bf16(value)) : value;
}

/// One row of one head: the query `token` against every key of its sequence. Keys that it does not
/// see weigh nothing, wherever they lie.
class AttentionRow {
 public:
  AttentionRow(const AttentionShape& shape, std::int64_t token, std::int64_t head, ConstView begins)
      : shape_(shape), token_(token), head_(head), seen_(shape.seen_from(token % shape.sequence)) {
    if (begins) seen_.first = std::max<std::int64_t>(seen_.first, begins.as<std::int32_t>()[token]);
  }

  std::int64_t first() const { return token_ / shape_.sequence * shape_.sequence; }
  std::int64_t kv_head() const { return head_ / shape_.group(); }
  KeyRange seen() const { return seen_; }

  /// q · k of each key as a chain, through the cap if there is one; 0 where masked.
  std::vector<float> scores(ConstView q, ConstView k) const {
    std::vector<float> products = chains(q, k);
    if (shape_.cap <= 0) return products;
    const float scale = shape_.score_scale() / shape_.cap;
    for (float& s : products) s = exact::tanh(s * scale) * shape_.cap;
    return products;
  }

  /// row · other of each key as a chain; 0 where masked.
  std::vector<float> chains(ConstView row, ConstView other) const {
    std::vector<float> products(shape_.sequence);
    for (std::int64_t key = seen_.first; key < seen_.end; ++key) {
      for (std::int64_t i = 0; i < shape_.head_dim; ++i) {
        products[key] = std::fma(get(row, {token_, head_, i}),
                                 get(other, {first() + key, kv_head(), i}), products[key]);
      }
    }
    return products;
  }

  /// e^(scale · s − shift) of each key; 0 where masked.
  std::vector<float> weights(const std::vector<float>& s, float shift) const {
    std::vector<float> weights(shape_.sequence);
    for (std::int64_t key = seen_.first; key < seen_.end; ++key)
      weights[key] = exact::exp(std::fma(s[key], rest_of_scale(), -shift));
    return weights;
  }

  float largest(const std::vector<float>& s) const {
    return rest_of_scale() * *std::max_element(s.begin() + seen_.first, s.begin() + seen_.end);
  }

  /// The slope of a score with respect to q · k.
  float slope(float score) const {
    if (shape_.cap <= 0) return shape_.score_scale();
    const float t = score * (1.0f / shape_.cap);
    return shape_.score_scale() * std::fma(-t, t, 1.0f);
  }

  /// Σ weights · other over the keys, as a chain.
  float mixture(const std::vector<float>& weights, ConstView other, std::int64_t i) const {
    float sum = 0;
    for (std::int64_t key = seen_.first; key < seen_.end; ++key)
      sum = std::fma(weights[key], get(other, {first() + key, kv_head(), i}), sum);
    return sum;
  }

 private:
  float rest_of_scale() const { return shape_.cap > 0 ? 1.0f : shape_.score_scale(); }

  const AttentionShape& shape_;
  std::int64_t token_, head_;
  KeyRange seen_;
};

/// The weights of one row and the gradients of its scores, rounded as they are multiplied.
struct RowGradient {
  std::vector<float> p, ds;

  RowGradient(const AttentionShape& shape, const AttentionGradient& at, std::int64_t token,
              std::int64_t head) {
    const AttentionRow row(shape, token, head, at.begins);
    const DType dtype = at.q.dtype();
    const float delta = sum_in_slots(shape.head_dim, [&](std::int64_t i) {
      return get(at.dout, {token, head, i}) * get(at.out, {token, head, i});
    });
    const std::vector<float> s = row.scores(at.q, at.k);
    const std::vector<float> dp = row.chains(at.dout, at.v);
    const float lse = get(at.lse, {token / shape.sequence, head, token % shape.sequence});
    p = row.weights(s, lse);
    ds.resize(shape.sequence);
    for (std::int64_t key = row.seen().first; key < row.seen().end; ++key) {
      ds[key] = rounded(p[key] * row.slope(s[key]) * (dp[key] - delta), dtype);
      p[key] = rounded(p[key], dtype);
    }
    for (std::int64_t i = 0; i < shape.head_dim; ++i)
      set(at.dq, {token, head, i}, row.mixture(ds, at.k, i));
  }
};

/// Adds what one query head gives to the dk and dv of a sequence, f32 [sequence, head_dim]: blocks
/// of 64 queries in order, each a chain over its queries.
void add_key_gradients(const AttentionShape& shape, const AttentionGradient& at,
                       std::int64_t sequence, std::int64_t head, std::vector<float>& dk,
                       std::vector<float>& dv) {
  for (std::int64_t first = 0; first < shape.sequence; first += kAttentionBlock) {
    const std::int64_t end = std::min(shape.sequence, first + kAttentionBlock);
    std::vector<float> block_dk(dk.size()), block_dv(dv.size());
    for (std::int64_t position = first; position < end; ++position) {
      const std::int64_t token = sequence * shape.sequence + position;
      const RowGradient row(shape, at, token, head);
      for (std::int64_t at_key = 0; at_key < std::ssize(dk); ++at_key) {
        const std::int64_t i = at_key % shape.head_dim;
        const std::int64_t key = at_key / shape.head_dim;
        block_dk[at_key] = std::fma(row.ds[key], get(at.q, {token, head, i}), block_dk[at_key]);
        block_dv[at_key] = std::fma(row.p[key], get(at.dout, {token, head, i}), block_dv[at_key]);
      }
    }
    for (std::size_t i = 0; i < dk.size(); ++i) {
      dk[i] += block_dk[i];
      dv[i] += block_dv[i];
    }
  }
}

}  // namespace

void attention(const AttentionShape& shape, ConstView q, ConstView k, ConstView v, View out,
               View lse, ConstView begins) {
  for (std::int64_t token = 0; token < shape.tokens(); ++token) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const AttentionRow row(shape, token, head, begins);
      const std::vector<float> s = row.scores(q, k);
      const float largest = row.largest(s);
      std::vector<float> weights = row.weights(s, largest);
      const float sum = sum_in_slots(shape.sequence, [&](auto key) { return weights[key]; });
      set(lse, {token / shape.sequence, head, token % shape.sequence}, largest + exact::log(sum));
      // In bf16 the weights are rounded before they multiply the values.
      for (float& weight : weights) weight = rounded(weight, q.dtype());
      for (std::int64_t i = 0; i < shape.head_dim; ++i)
        set(out, {token, head, i}, row.mixture(weights, v, i) * (1.0f / sum));
    }
  }
}

void attention_backward(const AttentionShape& shape, const AttentionGradient& at) {
  for (std::int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
    for (std::int64_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
      std::vector<float> dk(shape.sequence * shape.head_dim), dv(dk.size());
      for (std::int64_t member = 0; member < shape.group(); ++member)
        add_key_gradients(shape, at, sequence, kv_head * shape.group() + member, dk, dv);
      for (std::int64_t key = 0; key < shape.sequence; ++key) {
        const std::int64_t token = sequence * shape.sequence + key;
        for (std::int64_t i = 0; i < shape.head_dim; ++i) {
          set(at.dk, {token, kv_head, i}, dk[key * shape.head_dim + i]);
          set(at.dv, {token, kv_head, i}, dv[key * shape.head_dim + i]);
        }
      }
    }
  }
}

}  // namespace cleave::ops::reference::exact
