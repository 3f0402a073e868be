#include "cleave/ops/device/product.h"

#include <algorithm>

#include "cleave/ops/device/elementwise.h"
#include "cleave/ops/device/run.h"
#include "cleave/ops/product_library.h"

namespace cleave::ops::device {
namespace {

// As in product.cl.
constexpr std::int64_t kTileRows = 16;
constexpr std::int64_t kTileColumns = 64;

/// Where a chain along k is cut: as simd/gemm.cpp does it, which it must.
std::int64_t depth_of(std::int64_t k) {
  constexpr std::int64_t kDepth = 1536;
  const std::int64_t count = std::max<std::int64_t>(1, (k + kDepth - 1) / kDepth);
  return std::max<std::int64_t>(1, (k + count - 1) / count);
}

struct Strides {
  std::int64_t row, column;
  Strides(Transpose transpose, std::int64_t stride)
      : row(transpose == Transpose::Yes ? 1 : stride),
        column(transpose == Transpose::Yes ? stride : 1) {}
};

/// How scores are made, and which keys a query sees, as kernels have it.
struct Score {
  float scale, cap, into_cap, inverse_cap;
  std::int64_t full, window;

  explicit Score(const AttentionShape& shape)
      : scale(shape.score_scale()),
        cap(shape.cap),
        into_cap(cap > 0 ? scale / cap : 0),
        inverse_cap(cap > 0 ? 1.0f / cap : 0),
        full(shape.mask == AttentionMask::Full),
        window(shape.window) {}
};

/// How many of `tasks` have room at once, `bytes` each.
std::int64_t at_once(std::span<std::byte> scratch, std::int64_t bytes, std::int64_t tasks) {
  const std::int64_t fit = std::ssize(scratch) / bytes;
  CLEAVE_CHECK(fit > 0, "attention needs ", bytes, " bytes of scratch and has ", scratch.size());
  return std::min(fit, tasks);
}

/// The gradients of `count` key-value heads from `first` on, one block of queries after another.
class HeadsBackward {
 public:
  HeadsBackward(Accelerator& device, const AttentionShape& shape, const AttentionGradient& at,
                const std::byte* room)
      : device_(device), shape_(shape), at_(at), room_(room) {}

  void run(std::int64_t first, std::int64_t count) const {
    key_sums(first, count, /*begins=*/1);
    for (std::int64_t member = 0; member < shape_.group(); ++member) {
      for (std::int64_t block = 0; block < shape_.sequence; block += kAttentionBlock) {
        query_gradient(first, count, member, block);
        key_gradient(first, count, member, block);
      }
    }
    key_sums(first, count, /*begins=*/0);
  }

 private:
  std::int64_t rows_of(std::int64_t block) const {
    return std::min(kAttentionBlock, shape_.sequence - block);
  }

  void query_gradient(std::int64_t first, std::int64_t count, std::int64_t member,
                      std::int64_t block) const {
    const std::int64_t rows = rows_of(block);
    const Score score(shape_);
    run_groups(device_, "attention_query_gradient", at_.q.dtype(), count * rows, first, block, rows,
               member, shape_.sequence, shape_.kv_heads, shape_.group(), shape_.head_dim,
               score.scale, score.cap, score.into_cap, score.inverse_cap, score.full, score.window,
               at_.q, at_.q.stride(0), at_.q.stride(1), at_.k, at_.k.stride(0), at_.k.stride(1),
               at_.v, at_.v.stride(0), at_.v.stride(1), at_.out, at_.out.stride(0),
               at_.out.stride(1), at_.dout, at_.dout.stride(0), at_.dout.stride(1), at_.lse, at_.dq,
               at_.dq.stride(0), at_.dq.stride(1), at_.begins, room_);
  }

  void key_gradient(std::int64_t first, std::int64_t count, std::int64_t member,
                    std::int64_t block) const {
    const std::int64_t rows = rows_of(block);
    const KeyRange keys = shape_.keys_of_block(block, rows);
    const std::int64_t items = count * keys.count() * shape_.head_dim;
    run_items(device_, "attention_key_gradient", at_.q.dtype(), items, items, first, block, rows,
              keys.first, keys.count(), member, shape_.sequence, shape_.kv_heads, shape_.group(),
              shape_.head_dim, at_.q, at_.q.stride(0), at_.q.stride(1), at_.dout,
              at_.dout.stride(0), at_.dout.stride(1), room_);
  }

  void key_sums(std::int64_t first, std::int64_t count, std::int64_t begins) const {
    const std::int64_t items = count * shape_.sequence * shape_.head_dim;
    run_items(device_, "attention_key_sums", at_.q.dtype(), items, items, first, begins,
              shape_.sequence, shape_.kv_heads, shape_.head_dim, at_.dk, at_.dk.stride(0),
              at_.dk.stride(1), at_.dv, at_.dv.stride(0), at_.dv.stride(1), room_);
  }

  Accelerator& device_;
  const AttentionShape& shape_;
  const AttentionGradient& at_;
  const std::byte* room_;
};

}  // namespace

void matmul(Accelerator& device, const MatmulSpec& spec, ConstView a, ConstView b, View out,
            ConstView bias) {
  const Strides left(spec.a, spec.a_stride);
  const Strides right(spec.b, spec.b_stride);
  const std::int64_t tiles = (spec.m + kTileRows - 1) / kTileRows *
                             ((spec.n + kTileColumns - 1) / kTileColumns) * spec.batch;
  if (spec.k == 0) return;
  run_groups(device, "matmul", spec.in, tiles, spec.m, spec.n, spec.k, depth_of(spec.k), a,
             left.row, left.column, spec.a_batch_stride, b, right.row, right.column,
             spec.b_batch_stride, out, spec.out_stride, spec.out_batch_stride,
             std::int64_t{spec.out == DType::BF16}, std::int64_t{spec.write == Write::Accumulate},
             bias, std::int64_t{spec.bias_dtype == DType::BF16});
}

bool multiply_by_library(Accelerator& device, const MatmulSpec& spec, ConstView a, ConstView b,
                         View out, ConstView bias) {
  const bool adds = spec.bias == Bias::Add;
  if (spec.k == 0 || (adds && (out.rank() != 2 || spec.bias_dtype != spec.out))) return false;
  if (!ops::multiply_by_library(device, spec, a, b, out)) return false;
  // One row for all of them.
  if (adds) add(device, out, ConstView(bias.bytes(), spec.out, out.shape(), {0, 1, 0, 0}), out);
  return true;
}

void attention(Accelerator& device, const AttentionShape& shape, const AttentionGradient& at,
               View out, View lse, std::span<std::byte> scratch) {
  const std::int64_t rows = shape.tokens() * shape.heads;
  const std::int64_t some = at_once(scratch, shape.sequence * size_of(DType::F32), rows);
  const Score score(shape);
  for (std::int64_t first = 0; first < rows; first += some) {
    run_groups(device, "attention", at.q.dtype(), std::min(some, rows - first), first,
               shape.sequence, shape.heads, shape.group(), shape.head_dim, score.scale, score.cap,
               score.into_cap, score.full, score.window, at.q, at.q.stride(0), at.q.stride(1), at.k,
               at.k.stride(0), at.k.stride(1), at.v, at.v.stride(0), at.v.stride(1), out,
               out.stride(0), out.stride(1), lse, at.begins, scratch.data());
  }
}

void attention_backward(Accelerator& device, const AttentionShape& shape,
                        const AttentionGradient& at, std::span<std::byte> scratch) {
  const std::int64_t heads = shape.sequences * shape.kv_heads;
  const std::int64_t room =
      shape.sequence * (2 * kAttentionBlock + 2 * shape.head_dim) * size_of(DType::F32);
  const std::int64_t some = at_once(scratch, room, heads);
  const HeadsBackward backward(device, shape, at, scratch.data());
  for (std::int64_t first = 0; first < heads; first += some)
    backward.run(first, std::min(some, heads - first));
}

}  // namespace cleave::ops::device
