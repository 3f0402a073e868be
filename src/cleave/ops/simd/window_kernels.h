#pragma once

#include <cstddef>

#include "cleave/spec/dtype.h"
#include "cleave/spec/window_spec.h"

namespace cleave::ops {

// One image under sliding squares; `dtype` is F32 or BF16. Values move as they are, NaN included.

/// y [places · channels] = the largest value of each square, channel by channel.
void pool_image(DType dtype, const WindowShape& shape, const std::byte* x, std::byte* y);

/// dx = dy where a value was the first of the largest in its square, else 0. Squares must not
/// overlap.
void pool_image_backward(DType dtype, const WindowShape& shape, const std::byte* x,
                         const std::byte* dy, std::byte* dx);

/// out = 0 where x ≤ 0, else `from`, over n elements; out may be the memory of either.
void positive_span(DType dtype, const std::byte* x, const std::byte* from, std::byte* out,
                   std::size_t n);

}  // namespace cleave::ops
