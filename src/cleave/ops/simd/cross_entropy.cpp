#include "cleave/ops/cross_entropy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cleave/ops/simd/cross_entropy.cpp"
#include <hwy/foreach_target.h>

#include "cleave/ops/accelerator.h"
#include "cleave/ops/device/reduction.h"
#include "cleave/ops/simd/exp-inl.h"
#include "cleave/ops/simd/rows.h"
#include "cleave/tensor/bf16.h"

#ifndef CLEAVE_OPS_SIMD_CROSS_ENTROPY_
#define CLEAVE_OPS_SIMD_CROSS_ENTROPY_
namespace cleave::ops {

/// A row's largest logit so far, and Σ exp(logit - max).
struct RowSoftmax {
  float max;
  float sum;
};

/// No column yet.
inline constexpr RowSoftmax kNothing = {-std::numeric_limits<float>::infinity(), 0};

}  // namespace cleave::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace cleave::ops::HWY_NAMESPACE {
namespace {

float exp_one(float x) {
  return hn::GetLane(exp(set(x)));
}

float log_one(float x) {
  return hn::GetLane(log(set(x)));
}

/// Two passes over the row: the second finds it in cache.
template <class T>
RowSoftmax extend(const T* logits, std::size_t n, RowSoftmax before) {
  const float largest =
      max_vectors(n, [=](std::size_t i, auto part) HWY_ATTR { return load(logits + i, part); });
  const float max = std::max(before.max, largest);
  const float sum = sum_vectors(n, [=](std::size_t i, auto part) HWY_ATTR {
    return exp(hn::Sub(load(logits + i, part), set(max)));
  });
  if (before.sum == 0) return {max, sum};
  return {max, before.sum * exp_one(before.max - max) + sum};
}

RowSoftmax extend_row(DType dtype, const std::byte* logits, std::size_t n, RowSoftmax before) {
  RowSoftmax after = before;
  with_element(dtype, [&](auto element) HWY_ATTR {
    after = extend(reinterpret_cast<const decltype(element)*>(logits), n, before);
  });
  return after;
}

/// `target` is a column of this row, or any number outside [0, n).
template <class T>
void gradient(T* logits, std::int64_t n, std::int64_t target, float lse, float scale) {
  // Before the row is overwritten: the one element that is not just a probability.
  const bool here = target >= 0 && target < n;
  Vec special = hn::Zero(F32());
  if (here) {
    const Vec logit = load(logits + target, First{1});
    special = hn::Mul(hn::Sub(exp(hn::Sub(logit, set(lse))), set(1.0f)), set(scale));
  }
  for_vectors(n, [=](std::size_t i, auto part) HWY_ATTR {
    const Vec p = exp(hn::Sub(load(logits + i, part), set(lse)));
    store(hn::Mul(p, set(scale)), logits + i, part);
  });
  if (here) store(special, logits + target, First{1});
}

void gradient_row(DType dtype, std::byte* logits, std::int64_t n, std::int64_t target, float lse,
                  float scale) {
  with_element(dtype, [=](auto element) HWY_ATTR {
    gradient(reinterpret_cast<decltype(element)*>(logits), n, target, lse, scale);
  });
}

}  // namespace
}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cleave::ops {

HWY_EXPORT(exp_one);
HWY_EXPORT(log_one);
HWY_EXPORT(extend_row);
HWY_EXPORT(gradient_row);

namespace {

float element(ConstView matrix, std::int64_t row, std::int64_t column) {
  const std::byte* at = row_bytes(matrix, row, column);
  if (matrix.dtype() == DType::F32) return *reinterpret_cast<const float*>(at);
  return to_float(*reinterpret_cast<const BFloat16*>(at));
}

float log_sum_exp(RowSoftmax row) {
  return row.max + HWY_DYNAMIC_DISPATCH(log_one)(row.sum);
}

void check_block(ConstView logits, ConstView targets) {
  CLEAVE_CHECK(logits.rank() == 2, "logits ", to_string(logits.shape()));
  check_float("logits", logits);
  check_view("logits", logits, logits.dtype(), logits.shape());
  check_view("targets", targets, DType::I32, {logits.size(0)});
}

void check_targets(ConstView targets, std::int64_t vocab) {
  const auto* target = targets.as<std::int32_t>();
  for (std::int64_t token = 0; token < targets.size(0); ++token) {
    CLEAVE_CHECK(target[token] < vocab, "target ", target[token], " of token ", token,
                 " in a vocabulary of ", vocab);
  }
}

}  // namespace

void cross_entropy(Compute& compute, ConstView logits, ConstView targets, View losses, View lse) {
  const std::int64_t tokens = logits.size(0);
  check_block(logits, targets);
  check_view("losses", losses, DType::F32, {tokens});
  check_view("lse", lse, DType::F32, {tokens});
  if (Accelerator* device = compute.accelerator())
    return device::cross_entropy(*device, logits, targets, losses, lse);
  check_targets(targets, logits.size(1));
  const auto* target = targets.as<std::int32_t>();
  parallel_for(compute, tokens, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const RowSoftmax softmax = HWY_DYNAMIC_DISPATCH(extend_row)(
          logits.dtype(), row_bytes(logits, row), logits.size(1), kNothing);
      const float log_sum = log_sum_exp(softmax);
      lse.as<float>()[row] = log_sum;
      losses.as<float>()[row] =
          target[row] < 0 ? 0.0f : log_sum - element(logits, row, target[row]);
    }
  });
}

void cross_entropy_backward(Compute& compute, VocabBlock block, ConstView targets, ConstView lse,
                            float scale) {
  const View logits = block.logits;
  const std::int64_t columns = logits.size(1);
  check_block(logits, targets);
  check_view("lse", lse, DType::F32, {logits.size(0)});
  if (Accelerator* device = compute.accelerator())
    return device::cross_entropy_backward(*device, block, targets, lse, scale);
  const auto* target = targets.as<std::int32_t>();
  parallel_for(compute, logits.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (target[row] < 0) {
        std::memset(row_bytes(logits, row), 0, columns * size_of(logits.dtype()));
        continue;
      }
      HWY_DYNAMIC_DISPATCH(gradient_row)
      (logits.dtype(), row_bytes(logits, row), columns, target[row] - block.first,
       lse.as<float>()[row], scale);
    }
  });
}

void hits(Compute& compute, ConstView logits, ConstView targets, View hits) {
  check_block(logits, targets);
  check_view("hits", hits, DType::F32, {logits.size(0)});
  if (Accelerator* device = compute.accelerator())
    return device::hits(*device, logits, targets, hits);
  const auto* target = targets.as<std::int32_t>();
  parallel_for(compute, logits.size(0), 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t highest = 0;
      for (std::int64_t column = 1; column < logits.size(1); ++column)
        if (element(logits, row, column) > element(logits, row, highest)) highest = column;
      hits.as<float>()[row] = highest == target[row] ? 1.0f : 0.0f;
    }
  });
}

void cross_entropy_partial(Compute& compute, VocabBlock block, ConstView targets,
                           const SoftmaxState& state, Write write) {
  const ConstView logits = block.logits;
  const std::int64_t columns = logits.size(1);
  check_block(logits, targets);
  check_view("softmax max", state.max, DType::F32, {logits.size(0)});
  check_view("softmax sum", state.sum, DType::F32, {logits.size(0)});
  check_view("softmax target", state.target, DType::F32, {logits.size(0)});
  if (Accelerator* device = compute.accelerator())
    return device::cross_entropy_partial(*device, block, targets, state, write);
  const auto* target = targets.as<std::int32_t>();
  auto* max = state.max.as<float>();
  auto* sum = state.sum.as<float>();
  auto* target_logit = state.target.as<float>();
  parallel_for(compute, logits.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const bool first = write == Write::Overwrite;
      const RowSoftmax after =
          HWY_DYNAMIC_DISPATCH(extend_row)(logits.dtype(), row_bytes(logits, row), columns,
                                           first ? kNothing : RowSoftmax{max[row], sum[row]});
      max[row] = after.max;
      sum[row] = after.sum;
      if (first) target_logit[row] = 0;
      const std::int64_t column = target[row] - block.first;
      if (target[row] >= 0 && column >= 0 && column < columns) {
        target_logit[row] = element(logits, row, column);
      }
    }
  });
}

void cross_entropy_merge(Compute& compute, const SoftmaxState& other, const SoftmaxState& into) {
  const std::int64_t tokens = into.max.size(0);
  check_view("softmax max", other.max, DType::F32, {tokens});
  if (Accelerator* device = compute.accelerator())
    return device::cross_entropy_merge(*device, other, into);
  const auto exp = HWY_DYNAMIC_DISPATCH(exp_one);
  for (std::int64_t row = 0; row < tokens; ++row) {
    float& max = into.max.as<float>()[row];
    float& sum = into.sum.as<float>()[row];
    const float largest = std::max(max, other.max.as<float>()[row]);
    sum = sum * exp(max - largest) +
          other.sum.as<float>()[row] * exp(other.max.as<float>()[row] - largest);
    max = largest;
    into.target.as<float>()[row] += other.target.as<float>()[row];
  }
}

void cross_entropy_finish(Compute& compute, const SoftmaxState& state, ConstView targets,
                          View losses, View lse) {
  const std::int64_t tokens = targets.size(0);
  check_view("targets", targets, DType::I32, {tokens});
  check_view("losses", losses, DType::F32, {tokens});
  check_view("lse", lse, DType::F32, {tokens});
  if (Accelerator* device = compute.accelerator())
    return device::cross_entropy_finish(*device, state, targets, losses, lse);
  for (std::int64_t row = 0; row < tokens; ++row) {
    const float log_sum = log_sum_exp({state.max.as<float>()[row], state.sum.as<float>()[row]});
    lse.as<float>()[row] = log_sum;
    losses.as<float>()[row] =
        targets.as<std::int32_t>()[row] < 0 ? 0.0f : log_sum - state.target.as<float>()[row];
  }
}

}  // namespace cleave::ops
#endif
