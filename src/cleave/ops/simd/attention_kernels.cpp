#include "cleave/ops/simd/attention_kernels.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cleave/ops/simd/attention_kernels.cpp"
#include <hwy/foreach_target.h>

#include "cleave/ops/simd/exp-inl.h"
#include "cleave/ops/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cleave::ops::HWY_NAMESPACE {

HWY_INLINE float log_one(float x) {
  return hn::GetLane(log(set(x)));
}

template <class T>
void zero(T* at, std::int64_t count) {
  for_vectors(static_cast<std::size_t>(count),
              [=](std::size_t i, auto part) HWY_ATTR { store(hn::Zero(F32()), at + i, part); });
}

/// What is left to multiply scores with: a cap has seen to it.
HWY_INLINE float rest_of_scale(const AttentionShape& shape) {
  return shape.cap > 0 ? 1.0f : shape.score_scale();
}

/// e^−∞ is 0, so a row's sums may begin with the first key of the block, at the first slot,
/// whatever the row sees. Most rows see that key too.
HWY_INLINE void mask_before(float* scores, std::int64_t first) {
  std::fill_n(scores, first, -std::numeric_limits<float>::infinity());
}

void cap_rows(const ScoreBlock& block, float* s) {
  const float cap = block.shape.cap;
  const float scale = block.shape.score_scale() / cap;
  for (std::int64_t row = 0; row < block.rows; ++row) {
    float* scores = s + row * block.stride + block.keys.first;
    for_vectors(static_cast<std::size_t>(block.keys.count()),
                [=](std::size_t i, auto part) HWY_ATTR {
                  const Vec score = tanh(hn::Mul(load(scores + i, part), set(scale)));
                  store(hn::Mul(score, set(cap)), scores + i, part);
                });
  }
}

template <class T>
void softmax_rows(const ScoreBlock& block, float* s, T* p, float* lse, float* norm) {
  const float scale = rest_of_scale(block.shape);
  for (std::int64_t row = 0; row < block.rows; ++row) {
    float* scores = s + row * block.stride + block.keys.first;
    T* weights = p + row * block.stride + block.keys.first;
    const KeyRange seen = block.seen_by(row);
    const auto end = static_cast<std::size_t>(seen.end);
    mask_before(scores, seen.first);
    const float largest = scale * max_vectors(end, [=](std::size_t i, auto part)
                                                       HWY_ATTR { return load(scores + i, part); });
    const float sum = sum_vectors(end, [=](std::size_t i, auto part) HWY_ATTR {
      const Vec weight = exp(mul_sub(load(scores + i, part), set(scale), set(largest)));
      store(weight, weights + i, part);
      return weight;
    });
    zero(weights + end, block.keys.count() - seen.end);
    lse[row] = largest + log_one(sum);
    norm[row] = 1.0f / sum;
  }
}

void softmax_block(const ScoreBlock& block, float* s, std::byte* p, float* lse, float* norm) {
  with_element(block.dtype, [=](auto element) HWY_ATTR {
    softmax_rows(block, s, reinterpret_cast<decltype(element)*>(p), lse, norm);
  });
}

void normalize_block(const ScoreBlock& block, std::int64_t head_dim, const float* o,
                     const float* norm, std::byte* out, std::int64_t stride) {
  with_element(block.dtype, [=](auto element) HWY_ATTR {
    using T = decltype(element);
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const float* from = o + row * head_dim;
      T* to = reinterpret_cast<T*>(out) + row * stride;
      for_vectors(static_cast<std::size_t>(head_dim), [=](std::size_t i, auto part) HWY_ATTR {
        store(hn::Mul(load(from + i, part), set(norm[row])), to + i, part);
      });
    }
  });
}

void delta_block(const ScoreBlock& block, std::int64_t head_dim, HeadRows dout, HeadRows out,
                 float* delta) {
  with_element(block.dtype, [=](auto element) HWY_ATTR {
    using T = decltype(element);
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const T* a = reinterpret_cast<const T*>(dout.at) + row * dout.stride;
      const T* b = reinterpret_cast<const T*>(out.at) + row * out.stride;
      delta[row] =
          sum_vectors(static_cast<std::size_t>(head_dim), [=](std::size_t i, auto part) HWY_ATTR {
            return hn::Mul(load(a + i, part), load(b + i, part));
          });
    }
  });
}

/// Scores as they are; the slope of s is the scale.
struct Uncapped {
  explicit Uncapped(const AttentionShape& shape) : scale(shape.score_scale()) {}
  HWY_INLINE Vec slope(Vec) const { return set(scale); }

  float scale;
};

/// Scores s = cap · t with t = tanh(…), whose slope is 1 − t².
struct Capped {
  explicit Capped(const AttentionShape& shape)
      : scale(shape.score_scale()), inverse(1.0f / shape.cap) {}
  HWY_INLINE Vec slope(Vec score) const {
    const Vec t = hn::Mul(score, set(inverse));
    return hn::Mul(set(scale), neg_mul_add(t, t, set(1.0f)));
  }

  float scale, inverse;
};

template <class T, class Score>
void score_gradient_rows(const ScoreBlock& block, const ScoreGradient& at, const Score& score) {
  for (std::int64_t row = 0; row < block.rows; ++row) {
    const std::int64_t offset = row * block.stride + block.keys.first;
    float* s = at.s + offset;
    const float* dp = at.dp + offset;
    T* p = reinterpret_cast<T*>(at.p) + offset;
    T* ds = reinterpret_cast<T*>(at.ds) + offset;
    const Vec lse = set(at.lse[row]);
    const Vec delta = set(at.delta[row]);
    const Vec scale = set(rest_of_scale(block.shape));
    const KeyRange seen = block.seen_by(row);
    mask_before(s, seen.first);
    for_vectors(static_cast<std::size_t>(seen.end), [=](std::size_t i, auto part) HWY_ATTR {
      const Vec at_key = load(s + i, part);
      const Vec weight = exp(mul_sub(at_key, scale, lse));
      const Vec gradient = hn::Sub(load(dp + i, part), delta);
      store(weight, p + i, part);
      store(hn::Mul(hn::Mul(weight, score.slope(at_key)), gradient), ds + i, part);
    });
    zero(ds, seen.first);  // where −∞ has no slope
    zero(p + seen.end, block.keys.count() - seen.end);
    zero(ds + seen.end, block.keys.count() - seen.end);
  }
}

void score_gradient_block(const ScoreBlock& block, const ScoreGradient& at) {
  with_element(block.dtype, [&](auto element) HWY_ATTR {
    using T = decltype(element);
    if (block.shape.cap > 0) {
      score_gradient_rows<T>(block, at, Capped(block.shape));
    } else {
      score_gradient_rows<T>(block, at, Uncapped(block.shape));
    }
  });
}

void round_rows(DType dtype, const float* from, std::int64_t rows, std::int64_t columns,
                std::byte* to, std::int64_t stride) {
  with_element(dtype, [=](auto element) HWY_ATTR {
    using T = decltype(element);
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* source = from + row * columns;
      T* rounded = reinterpret_cast<T*>(to) + row * stride;
      for_vectors(static_cast<std::size_t>(columns), [=](std::size_t i, auto part) HWY_ATTR {
        store(load(source + i, part), rounded + i, part);
      });
    }
  });
}

template <class T>
void decode_rows(const DecodeHead& head) {
  const T* q = reinterpret_cast<const T*>(head.q);
  const auto head_dim = static_cast<std::size_t>(head.shape.head_dim);
  const std::int64_t position = head.length - 1;
  const KeyRange seen = head.shape.seen_from(position, head.length);
  for (std::int64_t token = seen.first; token < seen.end; ++token) {
    const T* k = reinterpret_cast<const T*>(head.k.at) + token * head.k.stride;
    head.p[token] = sum_vectors(head_dim, [=](std::size_t i, auto part) HWY_ATTR {
      return hn::Mul(load(q + i, part), load(k + i, part));
    });
  }
  float lse = 0;
  float norm = 0;
  const ScoreBlock last{head.shape, position, 1, seen, head.length, DType::F32};
  if (head.shape.cap > 0) cap_rows(last, head.p);
  softmax_rows(last, head.p, head.p, &lse, &norm);
  for_vectors(head_dim, [&](std::size_t i, auto part) HWY_ATTR {
    Vec sum = hn::Zero(F32());
    for (std::int64_t token = seen.first; token < seen.end; ++token) {
      const T* v = reinterpret_cast<const T*>(head.v.at) + token * head.v.stride;
      sum = mul_add(set(head.p[token]), load(v + i, part), sum);
    }
    store(hn::Mul(sum, set(norm)), reinterpret_cast<T*>(head.out) + i, part);
  });
}

void decode_head(DType dtype, const DecodeHead& head) {
  with_element(dtype, [&](auto element) HWY_ATTR { decode_rows<decltype(element)>(head); });
}

}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cleave::ops {

HWY_EXPORT(cap_rows);
HWY_EXPORT(softmax_block);
HWY_EXPORT(normalize_block);
HWY_EXPORT(delta_block);
HWY_EXPORT(score_gradient_block);
HWY_EXPORT(round_rows);
HWY_EXPORT(decode_head);

void cap_block(const ScoreBlock& block, float* s) {
  HWY_DYNAMIC_DISPATCH(cap_rows)(block, s);
}

void softmax_block(const ScoreBlock& block, float* s, std::byte* p, float* lse, float* norm) {
  HWY_DYNAMIC_DISPATCH(softmax_block)(block, s, p, lse, norm);
}

void normalize_block(const ScoreBlock& block, std::int64_t head_dim, const float* o,
                     const float* norm, std::byte* out, std::int64_t stride) {
  HWY_DYNAMIC_DISPATCH(normalize_block)(block, head_dim, o, norm, out, stride);
}

void delta_block(const ScoreBlock& block, std::int64_t head_dim, HeadRows dout, HeadRows out,
                 float* delta) {
  HWY_DYNAMIC_DISPATCH(delta_block)(block, head_dim, dout, out, delta);
}

void score_gradient_block(const ScoreBlock& block, const ScoreGradient& at) {
  HWY_DYNAMIC_DISPATCH(score_gradient_block)(block, at);
}

void round_rows(DType dtype, const float* from, std::int64_t rows, std::int64_t columns,
                std::byte* to, std::int64_t stride) {
  HWY_DYNAMIC_DISPATCH(round_rows)(dtype, from, rows, columns, to, stride);
}

void decode_head(DType dtype, const DecodeHead& head) {
  HWY_DYNAMIC_DISPATCH(decode_head)(dtype, head);
}

}  // namespace cleave::ops
#endif
