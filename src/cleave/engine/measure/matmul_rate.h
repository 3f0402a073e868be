#pragma once

#include "cleave/spec/dtype.h"

namespace cleave::engine {

/// FLOP/s of a product on `threads` threads, measured now: of 768 × 768 × 768, or of the largest
/// that takes a quarter of a second at most. Takes about a tenth of a second, a second where
/// products are slow.
double matmul_rate(DType dtype, int threads);

}  // namespace cleave::engine
