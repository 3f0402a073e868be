#include "cleave/ops/reference/exact.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cleave/ops/reference/element.h"
#include "cleave/spec/kernel_scratch.h"

namespace cleave::ops::reference::exact {
namespace {

constexpr std::int64_t kDepth = 1536;

/// xhat = (x - mean) rstd, in the two roundings of the kernel.
float normalized(const LayernormBackwardArgs& args, std::int64_t token, std::int64_t i) {
  return (get(args.x, {token, i}) - get(args.mean, {token})) * get(args.rstd, {token});
}

void input_gradient(const LayernormBackwardArgs& args, std::int64_t token) {
  const std::int64_t hidden = args.x.size(1);
  const auto count = static_cast<float>(hidden);
  const auto g = [&](std::int64_t i) { return get(args.dy, {token, i}) * get(args.weight, {i}); };
  float slots[kSlots] = {};
  for (std::int64_t i = 0; i < hidden; ++i) {
    slots[i % kSlots] = std::fma(g(i), normalized(args, token, i), slots[i % kSlots]);
  }
  const float mean_along = sum_of_slots(slots) / count;
  const float mean_g = sum_in_slots(hidden, g) / count;
  for (std::int64_t i = 0; i < hidden; ++i) {
    float dx = std::fma(-normalized(args, token, i), mean_along, g(i) - mean_g);
    dx = get(args.rstd, {token}) * dx;
    if (args.add) dx += get(args.add, {token, i});
    set(args.dx, {token, i}, dx);
  }
}

}  // namespace

float sum_of_slots(const float (&slots)[kSlots]) {
  float row[16];
  for (int j = 0; j < 16; ++j)
    row[j] = (slots[j] + slots[16 + j]) + (slots[32 + j] + slots[48 + j]);
  for (int half = 8; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) row[j] += row[j + half];
  }
  return row[0];
}

float exp(float x) {
  if (x < -87.3f) return 0;
  if (x > 88.3f) x = 88.3f;
  const float shifted = std::fma(x, 1.44269504088896341f, 12582912.0f);
  const float k = shifted - 12582912.0f;
  const float r = std::fma(-k, -2.12194440e-4f, std::fma(-k, 0.693359375f, x));
  float p = 1.9875691500e-4f;
  for (float term :
       {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f}) {
    p = std::fma(p, r, term);
  }
  return std::ldexp(std::fma(r * r, p, r) + 1.0f, static_cast<int>(k));
}

float log(float x) {
  int exponent = 0;
  float mantissa = std::frexp(x, &exponent);
  if (mantissa < 0.70710678f) {
    mantissa *= 2;
    --exponent;
  }
  const auto k = static_cast<float>(exponent);
  const float f = mantissa - 1;
  const float s = f / (f + 2);
  const float z = s * s;
  float rest = std::fma(z, 2.0f / 9, 2.0f / 7);
  rest = std::fma(z, rest, 2.0f / 5);
  rest = std::fma(z, rest, 2.0f / 3);
  const float half_square = f * f * 0.5f;
  const float tail = std::fma(s, std::fma(z, rest, half_square), k * 1.42860682e-6f);
  return std::fma(k, 22713.0f / 32768, f - (half_square - tail));
}

float tanh(float x) {
  const float z = x * x;
  float p = -5.70498872745e-3f;
  for (float term : {2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f, -3.33332819422e-1f})
    p = std::fma(p, z, term);
  if (std::abs(x) < 0.625f) return std::fma(p * z, x, x);
  return std::copysign(1.0f - 2.0f / (exact::exp(2 * std::abs(x)) + 1.0f), x);
}

void matmul(ConstView a, ConstView b, View out, const MatmulOptions& options) {
  const std::int64_t k = a.size(1);
  const std::int64_t blocks = std::max<std::int64_t>(1, (k + kDepth - 1) / kDepth);
  const std::int64_t depth = (k + blocks - 1) / blocks;
  // An f32 out takes the blocks as they come; a bf16 one their sum, rounded once.
  const bool direct = out.dtype() == DType::F32;
  for (std::int64_t row = 0; row < out.size(0); ++row) {
    for (std::int64_t column = 0; column < out.size(1); ++column) {
      const float bias = options.bias ? get(options.bias, {column}) : 0.0f;
      const float before = options.write == Write::Accumulate ? get(out, {row, column}) : 0.0f;
      const auto finish = [&](float sum) {
        if (options.bias) sum += bias;
        return options.write == Write::Accumulate ? before + sum : sum;
      };
      float total = 0;
      for (std::int64_t block = 0; block < blocks; ++block) {
        float chain = 0;
        for (std::int64_t i = block * depth; i < std::min(k, (block + 1) * depth); ++i) {
          chain = std::fma(get(a, {row, i}), get(b, {i, column}), chain);
        }
        const bool first = block == 0;
        total = !first ? total + chain : direct ? finish(chain) : chain;
      }
      set(out, {row, column}, direct ? total : finish(total));
    }
  }
}

void layernorm(const LayernormArgs& args) {
  const std::int64_t hidden = args.x.size(1);
  const auto count = static_cast<float>(hidden);
  for (std::int64_t token = 0; token < args.x.size(0); ++token) {
    const auto x = [&](std::int64_t i) { return get(args.x, {token, i}); };
    const float mean = sum_in_slots(hidden, x) / count;
    const float squares =
        sum_in_slots(hidden, [&](std::int64_t i) { return (x(i) - mean) * (x(i) - mean); });
    const float rstd = 1.0f / std::sqrt(squares / count + args.eps);
    for (std::int64_t i = 0; i < hidden; ++i) {
      const float xhat = (x(i) - mean) * rstd;
      set(args.y, {token, i}, std::fma(xhat, get(args.weight, {i}), get(args.bias, {i})));
    }
    set(args.mean, {token}, mean);
    set(args.rstd, {token}, rstd);
  }
}

void layernorm_backward(const LayernormBackwardArgs& args) {
  const std::int64_t tokens = args.x.size(0);
  for (std::int64_t i = 0; i < args.x.size(1); ++i) {
    const TokenSlices slices = token_slices(tokens);
    float dweight = 0;
    float dbias = 0;
    for (std::int64_t slice = 0; slice < slices.count; ++slice) {
      float weight = 0;
      float bias = 0;
      const std::int64_t end = std::min(tokens, (slice + 1) * slices.tokens);
      for (std::int64_t token = slice * slices.tokens; token < end; ++token) {
        weight = std::fma(get(args.dy, {token, i}), normalized(args, token, i), weight);
        bias += get(args.dy, {token, i});
      }
      dweight = slice == 0 ? weight : dweight + weight;
      dbias = slice == 0 ? bias : dbias + bias;
    }
    set(args.dweight, {i}, dweight);
    set(args.dbias, {i}, dbias);
  }
  for (std::int64_t token = 0; token < tokens; ++token) input_gradient(args, token);
}

void cross_entropy(ConstView logits, ConstView targets, View losses, View lse) {
  for (std::int64_t token = 0; token < logits.size(0); ++token) {
    const auto logit = [&](std::int64_t i) { return get(logits, {token, i}); };
    float max = logit(0);
    for (std::int64_t i = 1; i < logits.size(1); ++i) max = std::max(max, logit(i));
    const float sum =
        sum_in_slots(logits.size(1), [&](std::int64_t i) { return exact::exp(logit(i) - max); });
    const float log_sum = max + exact::log(sum);
    const std::int32_t target = targets.as<std::int32_t>()[token];
    set(lse, {token}, log_sum);
    set(losses, {token}, target < 0 ? 0.0f : log_sum - logit(target));
  }
}

}  // namespace cleave::ops::reference::exact
