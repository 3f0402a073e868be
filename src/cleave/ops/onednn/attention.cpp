#include "cleave/ops/attention.h"

#include <algorithm>

#include "cleave/ops/onednn/attention_worker.h"
#include "cleave/ops/onednn/team.h"
#include "cleave/ops/parallel.h"

namespace cleave::ops {
namespace {

using onednn::AttentionProducts;
using onednn::AttentionWorkspace;

void check_heads(const char* name, ConstView view, DType dtype, const AttentionShape& shape,
                 std::int64_t heads) {
  CLEAVE_CHECK(view.shape() == (Shape{shape.tokens(), heads, shape.head_dim}) &&
                   view.dtype() == dtype && view.stride(2) == 1,
               "attention: ", name, " ", to_string(view.dtype()), to_string(view.shape()));
}

void check_lse(ConstView lse, const AttentionShape& shape) {
  CLEAVE_CHECK(lse.shape() == (Shape{shape.sequences, shape.heads, shape.sequence}) &&
                   lse.dtype() == DType::F32 && lse.dense(),
               "attention: lse ", to_string(lse.shape()));
}

/// The workspace of thread `slot` and its products.
struct Worker {
  AttentionWorkspace space;
  AttentionProducts products;

  Worker(Compute& compute, const AttentionShape& shape, DType dtype, std::int64_t product_bytes,
         int slot)
      : space(nullptr, shape, dtype, product_bytes), products(compute, shape, dtype) {
    space = AttentionWorkspace(compute.scratch().data() + slot * space.bytes, shape, dtype,
                               product_bytes);
    products.slot = slot;
    products.scratch = space.products;
  }
};

/// Calls fn(worker, begin, end) on pieces of [0, tasks), a worker per thread.
template <class Fn>
void with_workers(Compute& compute, const AttentionShape& shape, DType dtype, std::int64_t tasks,
                  const Fn& fn) {
  // Compiled before the team starts: inside it the kernels are only looked up.
  const std::int64_t product_bytes = AttentionProducts(compute, shape, dtype).compile();
  const std::int64_t needed =
      AttentionWorkspace(nullptr, shape, dtype, product_bytes).bytes * compute.threads();
  CLEAVE_CHECK(needed <= static_cast<std::int64_t>(compute.scratch().size()), "attention needs ",
               needed, " bytes of scratch and has ", compute.scratch().size());
  const onednn::TeamOf team(1);
  parallel_pieces(compute, tasks, 1, [&](int piece, std::int64_t begin, std::int64_t end) {
    Worker worker(compute, shape, dtype, product_bytes, piece);
    fn(worker, begin, end);
  });
}

struct Head {
  std::int64_t sequence, head, kv_head;
  std::int64_t token;  // the first of the sequence
  std::int64_t lse;    // offset of its first row
};

Head head_of(const AttentionShape& shape, std::int64_t sequence, std::int64_t head) {
  return {sequence, head, head / shape.group(), sequence * shape.sequence,
          (sequence * shape.heads + head) * shape.sequence};
}

/// The gradients of one query head; adds to the workspace's dk and dv.
void backward_head(const AttentionShape& shape, const AttentionGradient& at, const Head& head,
                   Worker& worker) {
  AttentionWorkspace& space = worker.space;
  for (std::int64_t index = 0; index < onednn::block_count(shape); ++index) {
    const ScoreBlock block = onednn::score_block(shape, at.q.dtype(), index);
    const std::int64_t token = head.token + block.first;
    onednn::gather(at.q, token, head.head, block.rows, space.q);
    onednn::gather(at.dout, token, head.head, block.rows, space.dout);
    delta_block(block, shape.head_dim, {space.dout, shape.head_dim},
                {onednn::head_at(at.out, token, head.head), at.out.stride(0)}, space.rows);
    worker.products.scores(block, space.q, space.k, space.s);
    worker.products.scores(block, space.dout, space.v, space.dp);
    score_gradient_block(block, {.s = space.s,
                                 .dp = space.dp,
                                 .lse = at.lse.as<float>() + head.lse + block.first,
                                 .delta = space.rows,
                                 .p = space.p,
                                 .ds = space.ds});
    worker.products.spread(block, space.p, space.dout, space.dv);
    worker.products.spread(block, space.ds, space.q, space.dk);
    worker.products.mix(block, space.ds, space.k, space.o);
    round_rows(at.q.dtype(), space.o, block.rows, shape.head_dim,
               onednn::head_at(at.dq, token, head.head), at.dq.stride(0));
  }
}

}  // namespace

std::int64_t attention_scratch_bytes(Compute& compute, const AttentionShape& shape, DType dtype) {
  const std::int64_t product_bytes = AttentionProducts(compute, shape, dtype).compile();
  return AttentionWorkspace(nullptr, shape, dtype, product_bytes).bytes * compute.threads();
}

void attention(Compute& compute, const AttentionShape& shape, ConstView q, ConstView k, ConstView v,
               View out, View lse) {
  check_heads("q", q, q.dtype(), shape, shape.heads);
  check_heads("k", k, q.dtype(), shape, shape.kv_heads);
  check_heads("v", v, q.dtype(), shape, shape.kv_heads);
  check_heads("out", out, q.dtype(), shape, shape.heads);
  check_lse(lse, shape);
  const auto heads = [&](Worker& worker, std::int64_t begin, std::int64_t end) {
    AttentionWorkspace& space = worker.space;
    for (std::int64_t task = begin; task < end; ++task) {
      const Head head = head_of(shape, task / shape.heads, task % shape.heads);
      onednn::gather(k, head.token, head.kv_head, shape.sequence, space.k);
      onednn::gather(v, head.token, head.kv_head, shape.sequence, space.v);
      for (std::int64_t index = 0; index < onednn::block_count(shape); ++index) {
        const ScoreBlock block = onednn::score_block(shape, q.dtype(), index);
        const std::int64_t token = head.token + block.first;
        onednn::gather(q, token, head.head, block.rows, space.q);
        worker.products.scores(block, space.q, space.k, space.s);
        softmax_block(block, space.s, space.p, lse.as<float>() + head.lse + block.first,
                      space.rows);
        worker.products.mix(block, space.p, space.v, space.o);
        normalize_block(block, shape.head_dim, space.o, space.rows,
                        onednn::head_at(out, token, head.head), out.stride(0));
      }
    }
  };
  with_workers(compute, shape, q.dtype(), shape.sequences * shape.heads, heads);
}

void attention_backward(Compute& compute, const AttentionShape& shape,
                        const AttentionGradient& at) {
  const DType dtype = at.q.dtype();
  for (const auto& [name, view] :
       {std::pair{"q", at.q}, {"out", at.out}, {"dout", at.dout}, {"dq", ConstView(at.dq)}}) {
    check_heads(name, view, dtype, shape, shape.heads);
  }
  for (const auto& [name, view] :
       {std::pair{"k", at.k}, {"v", at.v}, {"dk", ConstView(at.dk)}, {"dv", ConstView(at.dv)}}) {
    check_heads(name, view, dtype, shape, shape.kv_heads);
  }
  check_lse(at.lse, shape);
  // One task per key-value head: its query heads add to dk and dv one after another.
  const auto groups = [&](Worker& worker, std::int64_t begin, std::int64_t end) {
    AttentionWorkspace& space = worker.space;
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t sequence = task / shape.kv_heads;
      const std::int64_t kv_head = task % shape.kv_heads;
      const std::int64_t token = sequence * shape.sequence;
      onednn::gather(at.k, token, kv_head, shape.sequence, space.k);
      onednn::gather(at.v, token, kv_head, shape.sequence, space.v);
      std::fill_n(space.dk, shape.sequence * shape.head_dim, 0.0f);
      std::fill_n(space.dv, shape.sequence * shape.head_dim, 0.0f);
      for (std::int64_t member = 0; member < shape.group(); ++member) {
        backward_head(shape, at, head_of(shape, sequence, kv_head * shape.group() + member),
                      worker);
      }
      round_rows(dtype, space.dk, shape.sequence, shape.head_dim,
                 onednn::head_at(at.dk, token, kv_head), at.dk.stride(0));
      round_rows(dtype, space.dv, shape.sequence, shape.head_dim,
                 onednn::head_at(at.dv, token, kv_head), at.dv.stride(0));
    }
  };
  with_workers(compute, shape, dtype, shape.sequences * shape.kv_heads, groups);
}

void attention_decode(Compute& compute, ConstView q, ConstView k, ConstView v, View out) {
  const std::int64_t length = k.size(0);
  const std::int64_t group = q.size(0) / k.size(1);
  const std::int64_t row_bytes = (length * 4 + 63) / 64 * 64;
  CLEAVE_CHECK(row_bytes * compute.threads() <= std::int64_t(compute.scratch().size()),
               "attention_decode needs ", row_bytes * compute.threads(), " bytes of scratch");
  parallel_pieces(compute, q.size(0), 1, [&](int piece, std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      const std::int64_t at = head / group;
      decode_head(q.dtype(),
                  {.q = q.bytes() + head * q.stride(0) * size_of(q.dtype()),
                   .k = {onednn::head_at(k, 0, at), k.stride(0)},
                   .v = {onednn::head_at(v, 0, at), v.stride(0)},
                   .out = out.bytes() + head * out.stride(0) * size_of(out.dtype()),
                   .p = reinterpret_cast<float*>(compute.scratch().data() + piece * row_bytes),
                   .length = length,
                   .head_dim = q.size(1)});
    }
  });
}

}  // namespace cleave::ops
