#pragma once

#include "cleave/spec/dtype.h"

namespace cleave::engine {

/// FLOP/s of one large product on `threads` threads, measured now; takes about a tenth of a second.
double matmul_rate(DType dtype, int threads);

/// How many of `devices` devices with `threads` threads each can compute at the same time on the
/// cores that this process may use; at least 1, not always whole.
double devices_at_once(int devices, int threads);

}  // namespace cleave::engine
