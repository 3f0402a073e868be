#include "cleave/ops/device/pairs.h"

#include "cleave/ops/device/run.h"

namespace cleave::ops::device {

void pair_losses(Accelerator& device, ConstView logits, const Pairing& pairing, View losses) {
  run_items(device, "pair_losses", DType::F32, logits.size(0), logits.size(0), logits.size(1),
            logits, stride_of(logits), pairing.first, pairing.bias, losses);
}

void pair_losses_backward(Accelerator& device, View logits, const Pairing& pairing, float scale,
                          View sums) {
  run_items(device, "pair_gradient", DType::F32, logits.size(0), logits.size(0), logits.size(1),
            logits, stride_of(logits), pairing.first, pairing.bias, scale, sums);
}

void unit_rows(Accelerator& device, ConstView x, View y, View inverse) {
  run_groups(device, "unit_rows", x.dtype(), x.size(0), x.size(1), x, stride_of(x), y, stride_of(y),
             inverse);
}

void unit_rows_backward(Accelerator& device, ConstView dy, ConstView x, ConstView inverse,
                        View dx) {
  run_groups(device, "unit_rows_gradient", x.dtype(), x.size(0), x.size(1), dy, stride_of(dy), x,
             stride_of(x), inverse, dx, stride_of(dx));
}

void place_rows(Accelerator& device, const PlacedTokens& tokens, ConstView x, ConstView table,
                View y) {
  run_items(device, "place_rows", y.dtype(), y.elements(), y.elements(), y.size(1), tokens.ids,
            tokens.places, x ? x.size(0) : std::int64_t{0}, x, stride_of(x), table.size(0), table,
            stride_of(table), y, stride_of(y));
}

void add_rows(Accelerator& device, ConstView places, ConstView x, ConstView rows, View y) {
  run_items(device, "add_rows", y.dtype(), y.elements(), y.elements(), y.size(1), places,
            rows ? rows.size(0) : std::int64_t{0}, rows, stride_of(rows), x, stride_of(x), y,
            stride_of(y));
}

void place_rows_backward(Accelerator& device, ConstView places, ConstView dy, View dx) {
  run_items(device, "place_rows_gradient", dy.dtype(), dy.size(1), dy.size(1), dy.size(0), places,
            dx.size(0), dy, stride_of(dy), dx, stride_of(dx));
}

void place_table_backward(Accelerator& device, const PlacedTokens& tokens, std::int64_t rows,
                          ConstView dy, View dtable) {
  run_items(device, "place_table_gradient", dy.dtype(), dy.size(1), dy.size(1), dy.size(0),
            tokens.ids, tokens.places, tokens.still, rows, dtable.size(0), dy, stride_of(dy),
            dtable, stride_of(dtable));
}

void attention_pool(Accelerator& device, const PoolShape& shape, ConstView q, ConstView kv, View y,
                    View p) {
  const std::int64_t count = shape.sequences * shape.heads;
  run_items(device, "attention_pool", kv.dtype(), count, count, shape.sequence, shape.heads,
            shape.head_dim, q, kv, stride_of(kv), y, stride_of(y), p);
}

void attention_pool_backward(Accelerator& device, const PoolShape& shape, const PoolGradient& at) {
  run_items(device, "attention_pool_gradient", at.kv.dtype(), shape.heads, shape.heads,
            shape.sequences, shape.sequence, shape.head_dim, at.q, at.kv, stride_of(at.kv), at.p,
            at.dy, stride_of(at.dy), at.dkv, stride_of(at.dkv), at.dq);
}

}  // namespace cleave::ops::device
