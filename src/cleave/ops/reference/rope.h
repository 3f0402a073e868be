#pragma once

#include "cleave/ops/rope.h"

namespace cleave::ops::reference {

/// x · cos + rotate_half(x) · sin, in f64.
void rope(const RopeArgs& args);

}  // namespace cleave::ops::reference
