#pragma once

#include <string_view>

#include "cleave/ops/accelerator.h"
#include "cleave/spec/matmul_spec.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

/// The library that multiplies f32 on accelerators where bits need not be exact; empty if this
/// build has none.
std::string_view product_library();

/// The product that `spec` describes, without bias, by that library, whose sums have an order of
/// their own. False, and nothing happens, if there is none for it.
bool multiply_by_library(Accelerator& device, const MatmulSpec& spec, ConstView a, ConstView b,
                         View out);

}  // namespace cleave::ops
