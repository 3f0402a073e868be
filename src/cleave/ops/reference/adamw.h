#pragma once

#include "cleave/ops/adamw.h"

namespace cleave::ops::reference {

/// Computes in f64 and rounds each result once.
void adamw(const AdamwArgs& args, const AdamwHyper& hyper);

}  // namespace cleave::ops::reference
