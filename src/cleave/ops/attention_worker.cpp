#include "cleave/ops/attention_worker.h"

#include <algorithm>

namespace cleave::ops {
namespace {

class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  /// The next piece; every piece begins on a cache line.
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

std::int64_t AttentionWorker::lay_out(std::byte* base) {
  const std::int64_t block = std::min(kAttentionBlock, shape_.sequence);
  const std::int64_t head = shape_.head_dim;
  const bool f32 = dtype_ == DType::F32;
  Carver carver(base);
  for (std::byte*& matrix : packed) {
    matrix = carver.take(std::max(packed_b_bytes(kernel_, shape_.sequence, head),
                                  packed_b_bytes(kernel_, head, shape_.sequence)));
  }
  packed_block = carver.take(packed_b_bytes(kernel_, head, block));
  s = carver.take<float>(block * stride() * 4);
  dp = carver.take<float>(block * stride() * 4);
  p = f32 ? reinterpret_cast<std::byte*>(s) : carver.take(block * stride() * 2);
  ds = f32 ? reinterpret_cast<std::byte*>(dp) : carver.take(block * stride() * 2);
  o = carver.take<float>(block * head * 4);
  row = carver.take<float>(block * 4);
  dk = carver.take<float>(shape_.sequence * head * 4);
  dv = carver.take<float>(shape_.sequence * head * 4);
  product_scratch_ =
      carver.take(gemm_packed_scratch_bytes(kernel_, std::max(shape_.sequence, head)));
  return carver.used();
}

/// It is no multiple of 4 KiB: eight rows at that distance would share one set of the L1 cache.
std::int64_t AttentionWorker::stride() const {
  return (shape_.sequence + 15) / 16 * 16 + 16;
}

std::int64_t AttentionWorker::scratch_bytes(const GemmKernel& kernel, const AttentionShape& shape,
                                            DType dtype) {
  return AttentionWorker(kernel, shape, dtype, nullptr).lay_out(nullptr);
}

AttentionWorker::AttentionWorker(const GemmKernel& kernel, const AttentionShape& shape, DType dtype,
                                 std::byte* scratch)
    : kernel_(kernel), shape_(shape), dtype_(dtype) {
  lay_out(scratch);
}

std::int64_t AttentionWorker::block_count() const {
  return (shape_.sequence + kAttentionBlock - 1) / kAttentionBlock;
}

ScoreBlock AttentionWorker::block(std::int64_t index, const std::int32_t* begins) const {
  const std::int64_t first = index * kAttentionBlock;
  const std::int64_t rows = std::min(kAttentionBlock, shape_.sequence - first);
  return {.shape = shape_,
          .first = first,
          .rows = rows,
          .keys = shape_.keys_of_block(first, rows, begins),
          .stride = stride(),
          .dtype = dtype_,
          .begins = begins};
}

PackedB AttentionWorker::pack(ConstView view, std::int64_t token, std::int64_t head,
                              std::int64_t rows, std::byte* to) const {
  const GemmOperand b{head_at(view, token, head), dtype_, view.stride(0), 1};
  return pack_b(kernel_, b, shape_.head_dim, rows, to);
}

PackedB AttentionWorker::pack_transposed(ConstView view, std::int64_t token, std::int64_t head,
                                         std::byte* to) const {
  const GemmOperand b{head_at(view, token, head), dtype_, 1, view.stride(0)};
  return pack_b(kernel_, b, shape_.sequence, shape_.head_dim, to);
}

void AttentionWorker::scores(const ScoreBlock& block, HeadRows q, const PackedB& k, float* to) {
  // Whole panels of keys; nobody reads what lies beside the block's.
  const std::int64_t panel = kernel_.columns();
  const std::int64_t first = block.keys.first / panel * panel;
  const std::int64_t end = (block.keys.end + panel - 1) / panel * panel;
  gemm_packed(kernel_,
              {.m = block.rows,
               .n = std::min(end, shape_.sequence) - first,
               .k = shape_.head_dim,
               .a = {q.at, dtype_, q.stride, 1},
               .b = {},
               .out = {reinterpret_cast<std::byte*>(to + first), DType::F32, block.stride}},
              columns_from(kernel_, k, first), product_scratch_);
}

void AttentionWorker::mix(const ScoreBlock& block, const std::byte* weights, const PackedB& v,
                          float* to) {
  gemm_packed(kernel_,
              {.m = block.rows,
               .n = shape_.head_dim,
               .k = block.keys.count(),
               .a = {weights + block.keys.first * size_of(dtype_), dtype_, block.stride, 1},
               .b = {},
               .out = {reinterpret_cast<std::byte*>(to), DType::F32, shape_.head_dim}},
              {v.words, v.n, v.k, block.keys.first}, product_scratch_);
}

void AttentionWorker::spread(const ScoreBlock& block, const std::byte* weights, const PackedB& dout,
                             float* to) {
  gemm_packed(kernel_,
              {.m = block.keys.count(),
               .n = shape_.head_dim,
               .k = block.rows,
               .a = {weights + block.keys.first * size_of(dtype_), dtype_, 1, block.stride},
               .b = {},
               .out = {reinterpret_cast<std::byte*>(to + block.keys.first * shape_.head_dim),
                       DType::F32, shape_.head_dim, Write::Accumulate}},
              dout, product_scratch_);
}

}  // namespace cleave::ops
