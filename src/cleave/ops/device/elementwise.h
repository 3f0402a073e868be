#pragma once

#include "cleave/ops/activation.h"
#include "cleave/ops/elementwise.h"
#include "cleave/ops/rope.h"

// The ops of the same names on an accelerator; their arguments are checked.
namespace cleave::ops::device {

void add(Accelerator& device, ConstView a, ConstView b, View out);
void scale(Accelerator& device, ConstView a, float factor, View out);
void weighted_sum(Accelerator& device, const Weighted& a, const Weighted& b, View out);
void fill(Accelerator& device, float value, View out);
void copy(Accelerator& device, ConstView a, View out);
void gelu(Accelerator& device, ConstView x, View y, GeluForm form);
void gelu_backward(Accelerator& device, ConstView x, ConstView dy, View dx, GeluForm form);

/// Which op: swiglu or geglu.
enum class Gate : std::uint8_t { Silu, Gelu };
void gated(Accelerator& device, Gate gate, ConstView gate_up, View y);
void gated_backward(Accelerator& device, Gate gate, ConstView gate_up, ConstView dy, View dgate_up);

void rope(Accelerator& device, const RopeArgs& args);

}  // namespace cleave::ops::device
