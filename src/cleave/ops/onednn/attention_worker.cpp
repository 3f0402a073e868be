#include "cleave/ops/onednn/attention_worker.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cleave/ops/onednn/kernels.h"

namespace cleave::ops::onednn {
namespace {

class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  template <class T = std::byte>
  T* take(std::int64_t bytes) {
    std::byte* piece = base_ ? base_ + used_ : nullptr;
    used_ += (bytes + 63) / 64 * 64;
    return reinterpret_cast<T*>(piece);
  }
  std::int64_t used() const { return used_; }

 private:
  std::byte* base_;
  std::int64_t used_ = 0;
};

}  // namespace

AttentionWorkspace::AttentionWorkspace(std::byte* base, const AttentionShape& shape, DType dtype,
                                       std::int64_t product_bytes) {
  const std::int64_t block = std::min(kAttentionBlock, shape.sequence);
  const std::int64_t size = size_of(dtype);
  Carver carver(base);
  q = carver.take(block * shape.head_dim * size);
  dout = carver.take(block * shape.head_dim * size);
  k = carver.take(shape.sequence * shape.head_dim * size);
  v = carver.take(shape.sequence * shape.head_dim * size);
  s = carver.take<float>(block * shape.sequence * 4);
  dp = carver.take<float>(block * shape.sequence * 4);
  const bool f32 = dtype == DType::F32;
  p = f32 ? reinterpret_cast<std::byte*>(s) : carver.take(block * shape.sequence * size);
  ds = f32 ? reinterpret_cast<std::byte*>(dp) : carver.take(block * shape.sequence * size);
  o = carver.take<float>(block * shape.head_dim * 4);
  rows = carver.take<float>(block * 4);
  dk = carver.take<float>(shape.sequence * shape.head_dim * 4);
  dv = carver.take<float>(shape.sequence * shape.head_dim * 4);
  products = carver.take(product_bytes);
  bytes = carver.used();
}

ScoreBlock score_block(const AttentionShape& shape, DType dtype, std::int64_t index) {
  const std::int64_t first = index * kAttentionBlock;
  return {first, std::min(kAttentionBlock, shape.sequence - first),
          1.0f / std::sqrt(static_cast<float>(shape.head_dim)), dtype};
}

void gather(ConstView view, std::int64_t token, std::int64_t head, std::int64_t rows,
            std::byte* to) {
  const std::int64_t bytes = view.size(2) * size_of(view.dtype());
  const std::int64_t stride = view.stride(0) * size_of(view.dtype());
  const std::byte* from = head_at(view, token, head);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memcpy(to + row * bytes, from + row * stride, static_cast<std::size_t>(bytes));
  }
}

AttentionProducts::AttentionProducts(Compute& compute, const AttentionShape& shape, DType dtype)
    : compute_(compute), shape_(shape), dtype_(dtype) {}

std::int64_t AttentionProducts::compile() {
  std::int64_t largest = 0;
  for (std::int64_t index = 0; index < block_count(shape_); ++index) {
    const ScoreBlock block = score_block(shape_, dtype_, index);
    for (const MatmulSpec& spec : {scores_spec(block), mix_spec(block), spread_spec(block)}) {
      largest = std::max(largest, compute_.kernels().thread_matmul(spec).scratch_bytes());
    }
  }
  return largest;
}

MatmulSpec AttentionProducts::scores_spec(const ScoreBlock& block) const {
  return {.m = block.rows,
          .n = block.keys(),
          .k = shape_.head_dim,
          .in = dtype_,
          .b = Transpose::Yes,
          .a_stride = shape_.head_dim,
          .b_stride = shape_.head_dim,
          .out_stride = block.keys()};
}

MatmulSpec AttentionProducts::mix_spec(const ScoreBlock& block) const {
  return {.m = block.rows,
          .n = shape_.head_dim,
          .k = block.keys(),
          .in = dtype_,
          .a_stride = block.keys(),
          .b_stride = shape_.head_dim,
          .out_stride = shape_.head_dim};
}

MatmulSpec AttentionProducts::spread_spec(const ScoreBlock& block) const {
  return {.m = block.keys(),
          .n = shape_.head_dim,
          .k = block.rows,
          .in = dtype_,
          .a = Transpose::Yes,
          .a_stride = block.keys(),
          .b_stride = shape_.head_dim,
          .out_stride = shape_.head_dim,
          .write = Write::Accumulate};
}

void AttentionProducts::run(const MatmulSpec& spec, const void* a, const void* b, void* out) const {
  compute_.kernels().thread_matmul(spec).run({.a = a, .b = b, .out = out, .scratch = scratch},
                                             slot);
}

void AttentionProducts::scores(const ScoreBlock& block, const std::byte* q, const std::byte* k,
                               float* s) const {
  run(scores_spec(block), q, k, s);
}

void AttentionProducts::mix(const ScoreBlock& block, const std::byte* p, const std::byte* v,
                            float* o) const {
  run(mix_spec(block), p, v, o);
}

void AttentionProducts::spread(const ScoreBlock& block, const std::byte* p, const std::byte* dout,
                               float* dv) const {
  run(spread_spec(block), p, dout, dv);
}

}  // namespace cleave::ops::onednn
