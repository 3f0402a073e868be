#pragma once

#include "cleave/ops/adamw.h"

namespace cleave::ops::reference {

/// In f64, each result rounded once.
void adamw(const AdamwArgs& args, const AdamwHyper& hyper);

}  // namespace cleave::ops::reference
