#pragma once

#include "cleave/ops/attention_pool.h"
#include "cleave/ops/pair_loss.h"
#include "cleave/ops/placed_rows.h"
#include "cleave/ops/unit_rows.h"

// The ops of the same names on an accelerator; their arguments are checked, but for the ids in its
// memory: one that has no row yields zeros and leaves no gradient.
namespace cleave::ops::device {

void pair_losses(Accelerator& device, ConstView logits, const Pairing& pairing, View losses);
void pair_losses_backward(Accelerator& device, View logits, const Pairing& pairing, float scale,
                          View sums);
void unit_rows(Accelerator& device, ConstView x, View y, View inverse);
void unit_rows_backward(Accelerator& device, ConstView dy, ConstView x, ConstView inverse, View dx);
void place_rows(Accelerator& device, const PlacedTokens& tokens, ConstView x, ConstView table,
                View y);
void add_rows(Accelerator& device, ConstView places, ConstView x, ConstView rows, View y);
void place_rows_backward(Accelerator& device, ConstView places, ConstView dy, View dx);
void place_table_backward(Accelerator& device, const PlacedTokens& tokens, std::int64_t rows,
                          ConstView dy, View dtable);
void attention_pool(Accelerator& device, const PoolShape& shape, ConstView q, ConstView kv, View y,
                    View p);
void attention_pool_backward(Accelerator& device, const PoolShape& shape, const PoolGradient& at);

}  // namespace cleave::ops::device
