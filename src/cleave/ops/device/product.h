#pragma once

#include <cstdint>
#include <span>

#include "cleave/ops/attention.h"
#include "cleave/ops/matmul.h"

// The ops of the same names on an accelerator; their arguments are checked.
namespace cleave::ops::device {

void matmul(Accelerator& device, const MatmulSpec& spec, ConstView a, ConstView b, View out,
            ConstView bias);
/// The same by a library, with bits of its own; false, and nothing happens, if there is none for
/// it.
bool multiply_by_library(Accelerator& device, const MatmulSpec& spec, ConstView a, ConstView b,
                         View out, ConstView bias);

/// As many heads at once as have room in `scratch`, which has what a processor's thread would need
/// at least.
void attention(Accelerator& device, const AttentionShape& shape, const AttentionGradient& at,
               View out, View lse, std::span<std::byte> scratch);
void attention_backward(Accelerator& device, const AttentionShape& shape,
                        const AttentionGradient& at, std::span<std::byte> scratch);

}  // namespace cleave::ops::device
