#include "cleave/ops/attention.h"

#include <algorithm>

#include "cleave/ops/accelerator.h"
#include "cleave/ops/attention_worker.h"
#include "cleave/ops/device/product.h"
#include "cleave/ops/parallel.h"

namespace cleave::ops {
namespace {

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

void check_begins(ConstView begins, const AttentionShape& shape) {
  CLEAVE_CHECK(static_cast<bool>(begins) == shape.documents, "attention: documents");
  CLEAVE_CHECK(!begins || (begins.shape() == Shape{shape.tokens()} &&
                           begins.dtype() == DType::I32 && begins.dense()),
               "attention: begins ", to_string(begins.shape()));
}

/// Where the documents of a sequence begin; null: it is one document.
const std::int32_t* begins_of(ConstView begins, std::int64_t token) {
  return begins ? begins.as<std::int32_t>() + token : nullptr;
}

/// Calls fn(worker, begin, end) on pieces of [0, tasks), a worker per thread.
template <class Fn>
void with_workers(Compute& compute, const AttentionShape& shape, DType dtype, std::int64_t tasks,
                  const Fn& fn) {
  const GemmKernel& kernel = gemm_kernel(dtype, compute.arithmetic());
  const std::int64_t bytes = AttentionWorker::scratch_bytes(kernel, shape, dtype);
  CLEAVE_CHECK(bytes * compute.threads() <= static_cast<std::int64_t>(compute.scratch().size()),
               "attention needs ", bytes * compute.threads(), " bytes of scratch and has ",
               compute.scratch().size());
  parallel_pieces(compute, tasks, 1, [&](int piece, std::int64_t begin, std::int64_t end) {
    AttentionWorker worker(kernel, shape, dtype, compute.scratch().data() + piece * bytes);
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

/// The packed keys and values of backward.
struct KeysAndValues {
  PackedB k_transposed, v_transposed, k;
};

/// The gradients of one query head; adds to the worker's dk and dv.
void backward_head(const AttentionGradient& at, const Head& head, const KeysAndValues& kv,
                   AttentionWorker& worker) {
  const std::int64_t head_dim = at.q.size(2);
  const std::int32_t* begins = begins_of(at.begins, head.token);
  for (std::int64_t index = 0; index < worker.block_count(); ++index) {
    const ScoreBlock block = worker.block(index, begins);
    const std::int64_t token = head.token + block.first;
    const HeadRows q{head_at(at.q, token, head.head), at.q.stride(0)};
    const HeadRows dout{head_at(at.dout, token, head.head), at.dout.stride(0)};
    const HeadRows out{head_at(at.out, token, head.head), at.out.stride(0)};
    delta_block(block, head_dim, dout, out, worker.row);
    worker.scores(block, q, kv.k_transposed, worker.s);
    if (block.shape.cap > 0) cap_block(block, worker.s);
    worker.scores(block, dout, kv.v_transposed, worker.dp);
    score_gradient_block(block, {.s = worker.s,
                                 .dp = worker.dp,
                                 .lse = at.lse.as<float>() + head.lse + block.first,
                                 .delta = worker.row,
                                 .p = worker.p,
                                 .ds = worker.ds});
    const auto packed = [&](ConstView view) {
      return worker.pack(view, token, head.head, block.rows, worker.packed_block);
    };
    worker.spread(block, worker.p, packed(at.dout), worker.dv);
    worker.spread(block, worker.ds, packed(at.q), worker.dk);
    worker.mix(block, worker.ds, kv.k, worker.o);
    round_rows(block.dtype, worker.o, block.rows, head_dim, head_at(at.dq, token, head.head),
               at.dq.stride(0));
  }
}

}  // namespace

std::int64_t attention_scratch_bytes(Compute& compute, const AttentionShape& shape, DType dtype) {
  const GemmKernel& kernel = gemm_kernel(dtype, compute.arithmetic());
  return AttentionWorker::scratch_bytes(kernel, shape, dtype) * compute.threads();
}

void attention(Compute& compute, const AttentionShape& shape, ConstView q, ConstView k, ConstView v,
               View out, View lse, ConstView begins) {
  check_heads("q", q, q.dtype(), shape, shape.heads);
  check_heads("k", k, q.dtype(), shape, shape.kv_heads);
  check_heads("v", v, q.dtype(), shape, shape.kv_heads);
  check_heads("out", out, q.dtype(), shape, shape.heads);
  check_lse(lse, shape);
  check_begins(begins, shape);
  if (Accelerator* device = compute.accelerator()) {
    return device::attention(*device, shape, {.q = q, .k = k, .v = v, .begins = begins}, out, lse,
                             compute.scratch());
  }
  const auto heads = [&](AttentionWorker& worker, std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const Head head = head_of(shape, task / shape.heads, task % shape.heads);
      const PackedB keys = worker.pack_transposed(k, head.token, head.kv_head, worker.packed[0]);
      const PackedB values =
          worker.pack(v, head.token, head.kv_head, shape.sequence, worker.packed[1]);
      for (std::int64_t index = 0; index < worker.block_count(); ++index) {
        const ScoreBlock block = worker.block(index, begins_of(begins, head.token));
        const std::int64_t token = head.token + block.first;
        worker.scores(block, {head_at(q, token, head.head), q.stride(0)}, keys, worker.s);
        if (shape.cap > 0) cap_block(block, worker.s);
        softmax_block(block, worker.s, worker.p, lse.as<float>() + head.lse + block.first,
                      worker.row);
        worker.mix(block, worker.p, values, worker.o);
        normalize_block(block, shape.head_dim, worker.o, worker.row, head_at(out, token, head.head),
                        out.stride(0));
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
  check_begins(at.begins, shape);
  if (Accelerator* device = compute.accelerator())
    return device::attention_backward(*device, shape, at, compute.scratch());
  // One task per key-value head: its query heads add to dk and dv one after another.
  const auto groups = [&](AttentionWorker& worker, std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t sequence = task / shape.kv_heads;
      const std::int64_t kv_head = task % shape.kv_heads;
      const std::int64_t token = sequence * shape.sequence;
      const KeysAndValues kv{worker.pack_transposed(at.k, token, kv_head, worker.packed[0]),
                             worker.pack_transposed(at.v, token, kv_head, worker.packed[1]),
                             worker.pack(at.k, token, kv_head, shape.sequence, worker.packed[2])};
      std::fill_n(worker.dk, shape.sequence * shape.head_dim, 0.0f);
      std::fill_n(worker.dv, shape.sequence * shape.head_dim, 0.0f);
      for (std::int64_t member = 0; member < shape.group(); ++member) {
        backward_head(at, head_of(shape, sequence, kv_head * shape.group() + member), kv, worker);
      }
      round_rows(dtype, worker.dk, shape.sequence, shape.head_dim, head_at(at.dk, token, kv_head),
                 at.dk.stride(0));
      round_rows(dtype, worker.dv, shape.sequence, shape.head_dim, head_at(at.dv, token, kv_head),
                 at.dv.stride(0));
    }
  };
  with_workers(compute, shape, dtype, shape.sequences * shape.kv_heads, groups);
}

void attention_decode(Compute& compute, const AttentionShape& shape, const DecodeViews& at) {
  require_processor(compute, "generating text");
  const auto& [q, k, v, out] = at;
  const std::int64_t length = k.size(0);
  const std::int64_t row_bytes = (length * 4 + 63) / 64 * 64;
  CLEAVE_CHECK(row_bytes * compute.threads() <= std::int64_t(compute.scratch().size()),
               "attention_decode needs ", row_bytes * compute.threads(), " bytes of scratch");
  parallel_pieces(compute, q.size(0), 1, [&](int piece, std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      const std::int64_t kv_head = head / shape.group();
      decode_head(q.dtype(),
                  {.shape = shape,
                   .q = q.bytes() + head * q.stride(0) * size_of(q.dtype()),
                   .k = {head_at(k, 0, kv_head), k.stride(0)},
                   .v = {head_at(v, 0, kv_head), v.stride(0)},
                   .out = out.bytes() + head * out.stride(0) * size_of(out.dtype()),
                   .p = reinterpret_cast<float*>(compute.scratch().data() + piece * row_bytes),
                   .length = length});
    }
  });
}

}  // namespace cleave::ops
