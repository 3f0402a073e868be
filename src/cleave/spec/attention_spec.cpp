#include "cleave/spec/attention_spec.h"

#include <algorithm>

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

std::vector<CountedMatmul> attention_matmuls(const AttentionShape& shape, DType dtype,
                                             AttentionPass pass) {
  std::vector<CountedMatmul> products;
  const std::int64_t batch = shape.sequences * shape.heads;
  for (std::int64_t first = 0; first < shape.sequence; first += kAttentionBlock) {
    const std::int64_t rows = std::min(kAttentionBlock, shape.sequence - first);
    const std::int64_t keys = first + rows;
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
