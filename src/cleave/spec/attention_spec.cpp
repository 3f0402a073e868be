#include "cleave/spec/attention_spec.h"

#include <algorithm>
#include <cmath>

#include "cleave/base/check.h"

namespace cleave {
namespace {

/// Dense operands.
CountedMatmul product(std::int64_t batch, DType in, std::int64_t m, std::int64_t n,
                      std::int64_t k) {
  return {.spec = {.m = m,
                   .n = n,
                   .k = k,
                   .batch = batch,
                   .in = in,
                   .out = DType::F32,
                   .a_stride = k,
                   .b_stride = n,
                   .out_stride = n,
                   .a_batch_stride = m * k,
                   .b_batch_stride = k * n,
                   .out_batch_stride = m * n}};
}

}  // namespace

float AttentionShape::score_scale() const {
  return scale > 0 ? scale : 1.0f / std::sqrt(static_cast<float>(head_dim));
}

KeyRange AttentionShape::seen_from(std::int64_t position, std::int64_t length) const {
  switch (mask) {
    case AttentionMask::Full:
      return {0, length};
    case AttentionMask::Window:
      return {std::max<std::int64_t>(0, position + 1 - window), position + 1};
    case AttentionMask::Causal:
      break;
  }
  return {0, position + 1};
}

KeyRange AttentionShape::seen_from(std::int64_t position, const std::int32_t* begins) const {
  const KeyRange seen = seen_from(position, sequence);
  if (begins == nullptr) return seen;
  return {std::max<std::int64_t>(seen.first, begins[position]), seen.end};
}

KeyRange AttentionShape::keys_of_block(std::int64_t first, std::int64_t rows,
                                       const std::int32_t* begins) const {
  return {seen_from(first, begins).first / kAttentionBlock * kAttentionBlock,
          seen_from(first + rows - 1).end};
}

void check(const AttentionShape& shape) {
  require((shape.mask == AttentionMask::Window) == (shape.window > 0), "an attention window of ",
          shape.window,
          " keys does not go with its mask; a window has at least 1 key, and only "
          "AttentionMask::Window has one");
  require(shape.scale >= 0 && shape.cap >= 0, "attention has the scale ", shape.scale,
          " and the cap ", shape.cap, "; neither can be negative");
  require(!shape.documents || shape.mask != AttentionMask::Full,
          "attention to all tokens of a sequence cannot keep documents apart; only tokens that see "
          "those before them can");
}

std::vector<CountedMatmul> attention_matmuls(const AttentionShape& shape, DType dtype,
                                             AttentionPass pass) {
  std::vector<CountedMatmul> products;
  const std::int64_t batch = shape.sequences * shape.heads;
  for (std::int64_t first = 0; first < shape.sequence; first += kAttentionBlock) {
    const std::int64_t rows = std::min(kAttentionBlock, shape.sequence - first);
    const std::int64_t keys = shape.keys_of_block(first, rows).count();
    const auto add = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
      products.push_back(product(batch, dtype, m, n, k));
    };
    add(rows, keys, shape.head_dim);  // q · kᵀ
    if (pass == AttentionPass::Forward) {
      add(rows, shape.head_dim, keys);  // p · v
      continue;
    }
    add(rows, keys, shape.head_dim);  // dp = do · vᵀ
    add(keys, shape.head_dim, rows);  // dv += pᵀ · do
    add(keys, shape.head_dim, rows);  // dk += dsᵀ · q
    add(rows, shape.head_dim, keys);  // dq = ds · k
  }
  return products;
}

}  // namespace cleave
