#pragma once

#include "cleave/ops/norm.h"

/// The norms as written on paper, summed in f64.
namespace cleave::ops::reference {

void layernorm(const LayernormArgs& args);
void layernorm_backward(const LayernormBackwardArgs& args);
void rmsnorm(const RmsnormArgs& args);
void rmsnorm_backward(const RmsnormBackwardArgs& args);

}  // namespace cleave::ops::reference
