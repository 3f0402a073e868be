#pragma once

#include <cstdint>

#include "cleave/ops/compute.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

/// Which of the columns of logits belongs to a row: row i is a pair with column first + i, and with
/// no other. A bias is added to every logit.
struct Pairing {
  std::int64_t first = 0;
  float bias = 0;
};

// The loss of each row of logits as one yes or no for every column (SigLIP, Zhai et al., 2023):
// -log sigmoid(logit + bias) for its pair, -log sigmoid(-logit - bias) for the others, added up in
// f64 in the order of the columns. Threads divide the rows.

///   logits  f32 [rows, columns]
///   losses  f32 [rows]
void pair_losses(Compute& compute, ConstView logits, const Pairing& pairing, View losses);

/// In place: logits = the gradient of the losses by them, times `scale`; sums[i] = those of row i
/// added up, which is the gradient by the bias.
///
///   logits  f32 [rows, columns]
///   sums    f32 [rows]
void pair_losses_backward(Compute& compute, View logits, const Pairing& pairing, float scale,
                          View sums);

}  // namespace cleave::ops
