#pragma once

#include "cleave/ops/windows.h"

// The ops of the same names on an accelerator; their arguments are checked.
namespace cleave::ops::device {

void unfold(Accelerator& device, const WindowShape& shape, ConstView x, View columns);
void fold(Accelerator& device, const WindowShape& shape, ConstView columns, View x);
void max_pool(Accelerator& device, const WindowShape& shape, ConstView x, View y);
void max_pool_backward(Accelerator& device, const WindowShape& shape, ConstView x, ConstView dy,
                       View dx);
/// out = `from` where x is positive or NaN, else 0: ReLU if `from` is x, and its gradient.
void relu(Accelerator& device, ConstView x, ConstView from, View out);
void to_channels_first(Accelerator& device, std::int64_t channels, ConstView x, View y);

}  // namespace cleave::ops::device
