#include "cleave/layers/attention.h"

#include "cleave/ops/attention.h"
#include "cleave/ops/elementwise.h"
#include "cleave/ops/rope.h"

namespace cleave {
namespace {

// Indices into what the spec declares (spec/layers.cpp).
constexpr int kLse = 0;
constexpr int kBegins = 0;
constexpr int kCos = 0;
constexpr int kSin = 1;
constexpr int kKeys = 0;
constexpr int kValues = 1;

/// The heads of one of q, k, v inside rows that hold all three: [tokens, heads, head_dim].
struct Heads {
  View q;
  View k;
  View v;
};

View heads(View rows, std::int64_t first, std::int64_t count, std::int64_t head_dim) {
  const std::int64_t tokens = rows.size(0);
  return View(rows.bytes() + first * head_dim * size_of(rows.dtype()), rows.dtype(),
              {tokens, count, head_dim}, {rows.stride(0), head_dim, 1, 0});
}

/// Where documents begin, if they are kept apart.
ConstView begins_in(const LayerCall& call, const AttentionShape& shape) {
  return shape.documents ? ConstView(call.reads[kBegins]) : ConstView();
}

Heads split(View rows, const AttentionShape& shape) {
  return {heads(rows, 0, shape.heads, shape.head_dim),
          heads(rows, shape.heads, shape.kv_heads, shape.head_dim),
          heads(rows, shape.heads + shape.kv_heads, shape.kv_heads, shape.head_dim)};
}

}  // namespace

void Attention::fill_constants() {
  if (!rotary()) return;
  const Rope& rope = attributes().rope;
  write_on_host(memory(), constant(kCos), [&](View cos) {
    write_on_host(memory(), constant(kSin), [&](View sin) {
      ops::fill_rope_tables(rope.frequencies, rope.magnitude, cos, sin);
    });
  });
}

void Attention::forward(ops::Compute& compute, const LayerCall& call) {
  const AttentionShape& shape = attributes().shape;
  const Heads in = split(call.x, shape);
  if (rotary()) {
    for (View x : {in.q, in.k}) {
      ops::rope(compute, {.x = x,
                          .cos = constant(kCos),
                          .sin = constant(kSin),
                          .sequence = shape.sequence,
                          .first_position = call.position});
    }
  }
  if (attributes().cache > 0) {
    attend_to_cache(compute, call);
  } else {
    ops::attention(compute, shape, in.q, in.k, in.v, heads(call.y, 0, shape.heads, shape.head_dim),
                   call.kept_by_forward[kLse], begins_in(call, shape));
  }
}

void Attention::attend_to_cache(ops::Compute& compute, const LayerCall& call) {
  const AttentionShape& shape = attributes().shape;
  const Heads in = split(call.x, shape);
  const View out = heads(call.y, 0, shape.heads, shape.head_dim);
  const std::int64_t tokens = call.x.size(0);
  ops::copy(compute, in.k, cache(kKeys).slice(0, call.position, tokens));
  ops::copy(compute, in.v, cache(kValues).slice(0, call.position, tokens));
  const auto row = [&](View rows, std::int64_t token) {
    return View(rows.slice(0, token, 1).bytes(), rows.dtype(), {shape.heads, shape.head_dim});
  };
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::int64_t seen = call.position + token + 1;
    ops::attention_decode(compute, shape,
                          {.q = row(in.q, token),
                           .k = cache(kKeys).slice(0, 0, seen),
                           .v = cache(kValues).slice(0, 0, seen),
                           .out = row(out, token)});
  }
}

void Attention::backward_input(ops::Compute& compute, const LayerCall& call) {
  const AttentionShape& shape = attributes().shape;
  const Heads in = split(call.x, shape);
  const Heads out = split(call.dx, shape);
  const ConstView dy = call.dy;
  const ConstView dout(dy.bytes(), dy.dtype(), {dy.size(0), shape.heads, shape.head_dim},
                       {dy.stride(0), shape.head_dim, 1, 0});
  ops::attention_backward(compute, shape,
                          {.q = in.q,
                           .k = in.k,
                           .v = in.v,
                           .out = heads(call.y, 0, shape.heads, shape.head_dim),
                           .lse = call.kept_by_forward[kLse],
                           .dout = dout,
                           .dq = out.q,
                           .dk = out.k,
                           .dv = out.v,
                           .begins = begins_in(call, shape)});
  if (!rotary()) return;
  for (View dx : {out.q, out.k}) {
    ops::rope(compute, {.x = dx,
                        .cos = constant(kCos),
                        .sin = constant(kSin),
                        .sequence = shape.sequence,
                        .rotation = ops::Rotation::Backward});
  }
}

std::int64_t Attention::scratch_bytes(ops::Compute& compute) const {
  if (const std::int64_t cache = attributes().cache; cache > 0) {
    return compute.threads() * aligned(cache * size_of(DType::F32));
  }
  return ops::attention_scratch_bytes(compute, attributes().shape, spec().x.dtype);
}

}  // namespace cleave
