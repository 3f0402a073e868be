#pragma once

#include "cleave/ops/matmul.h"

namespace cleave::ops::reference {

/// ops::matmul as it is written on paper, summed in f64. The oracle of the tests.
void matmul(ConstView a, ConstView b, View out, const MatmulOptions& options = {});

}  // namespace cleave::ops::reference
