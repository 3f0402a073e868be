#pragma once

#include "cleave/ops/muon.h"

namespace cleave::ops::reference {

/// Computes in f64.
void muon(const MuonArgs& args, const MuonHyper& hyper);

}  // namespace cleave::ops::reference
