#include "cleave/ops/simd/attention_kernels.h"

#include <cmath>

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

template <class T>
void softmax_rows(const ScoreBlock& block, const float* s, T* p, float* lse, float* norm) {
  for (std::int64_t row = 0; row < block.rows; ++row) {
    const float* scores = s + row * block.stride;
    T* weights = p + row * block.stride;
    const std::size_t seen = static_cast<std::size_t>(block.first + row + 1);
    const float largest = block.scale * max_vectors(seen, [=](std::size_t i, auto part) HWY_ATTR {
                            return load(scores + i, part);
                          });
    const float sum = sum_vectors(seen, [=](std::size_t i, auto part) HWY_ATTR {
      const Vec weight = exp(mul_sub(load(scores + i, part), set(block.scale), set(largest)));
      store(weight, weights + i, part);
      return weight;
    });
    zero(weights + seen, block.keys() - static_cast<std::int64_t>(seen));
    lse[row] = largest + log_one(sum);
    norm[row] = 1.0f / sum;
  }
}

void softmax_block(const ScoreBlock& block, const float* s, std::byte* p, float* lse, float* norm) {
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

template <class T>
void score_gradient_rows(const ScoreBlock& block, const ScoreGradient& at) {
  for (std::int64_t row = 0; row < block.rows; ++row) {
    const float* s = at.s + row * block.stride;
    const float* dp = at.dp + row * block.stride;
    T* p = reinterpret_cast<T*>(at.p) + row * block.stride;
    T* ds = reinterpret_cast<T*>(at.ds) + row * block.stride;
    const Vec lse = set(at.lse[row]);
    const Vec delta = set(at.delta[row]);
    const Vec scale = set(block.scale);
    const std::int64_t seen = block.first + row + 1;
    for_vectors(static_cast<std::size_t>(seen), [=](std::size_t i, auto part) HWY_ATTR {
      const Vec weight = exp(mul_sub(load(s + i, part), scale, lse));
      const Vec gradient = hn::Sub(load(dp + i, part), delta);
      store(weight, p + i, part);
      store(hn::Mul(hn::Mul(weight, scale), gradient), ds + i, part);
    });
    zero(p + seen, block.keys() - seen);
    zero(ds + seen, block.keys() - seen);
  }
}

void score_gradient_block(const ScoreBlock& block, const ScoreGradient& at) {
  with_element(block.dtype,
               [&](auto element) HWY_ATTR { score_gradient_rows<decltype(element)>(block, at); });
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
  const std::size_t head_dim = static_cast<std::size_t>(head.head_dim);
  const float scale = 1.0f / std::sqrt(static_cast<float>(head.head_dim));
  for (std::int64_t token = 0; token < head.length; ++token) {
    const T* k = reinterpret_cast<const T*>(head.k.at) + token * head.k.stride;
    head.p[token] = sum_vectors(head_dim, [=](std::size_t i, auto part) HWY_ATTR {
      return hn::Mul(load(q + i, part), load(k + i, part));
    });
  }
  float lse = 0;
  float norm = 0;
  const ScoreBlock last{head.length - 1, 1, head.length, scale, DType::F32};
  softmax_rows(last, head.p, head.p, &lse, &norm);
  for_vectors(head_dim, [&](std::size_t i, auto part) HWY_ATTR {
    Vec sum = hn::Zero(F32());
    for (std::int64_t token = 0; token < head.length; ++token) {
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

HWY_EXPORT(softmax_block);
HWY_EXPORT(normalize_block);
HWY_EXPORT(delta_block);
HWY_EXPORT(score_gradient_block);
HWY_EXPORT(round_rows);
HWY_EXPORT(decode_head);

void softmax_block(const ScoreBlock& block, const float* s, std::byte* p, float* lse, float* norm) {
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
