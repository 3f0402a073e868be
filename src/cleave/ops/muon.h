#pragma once

#include <cstdint>

#include "cleave/ops/compute.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

/// One whole matrix. All dense [rows, columns].
struct MuonArgs {
  View master;         // f32
  View momentum;       // f32
  ConstView gradient;  // f32
  View copy = {};      // bf16, the master rounded; or empty
};

struct MuonHyper {
  double lr = 0;
  double momentum = 0.95;
  double weight_decay = 0;
  double gradient_scale = 1;  // what clipping multiplies the gradient by
};

/// One step of Muon (Jordan et al., 2024) as torch.optim.Muon defines it, with Nesterov momentum,
/// but in f32 throughout:
///
///   g = gradient · gradient_scale
///   momentum = hyper.momentum · momentum + (1 - hyper.momentum) · g
///   x = hyper.momentum · momentum + (1 - hyper.momentum) · g
///   master = master · (1 - lr · weight_decay)
///            - lr · 0.2 · sqrt(max(rows, columns)) · orthogonal(x)
///
/// The factor gives updates the size that AdamW's have (adjust_lr_fn="match_rms_adamw"), so that
/// one learning rate serves both. orthogonal() is five steps of a Newton-Schulz iteration: all
/// singular values of x become nearly 1. The bits depend on the matrix alone, not on threads.
///
/// Needs muon_scratch_bytes of compute.scratch().
void muon(Compute& compute, const MuonArgs& args, const MuonHyper& hyper);

std::int64_t muon_scratch_bytes(Compute& compute, std::int64_t rows, std::int64_t columns);

}  // namespace cleave::ops
