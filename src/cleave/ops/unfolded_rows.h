#pragma once

#include <cstddef>

#include "cleave/spec/dtype.h"
#include "cleave/spec/window_spec.h"

namespace cleave::ops {

// One image and its rows, as unfold() and fold() have them; `dtype` is F32 or BF16.

/// columns [places, channels · size²] of x [height · width · channels].
void unfold_image(DType dtype, const WindowShape& shape, const std::byte* x, std::byte* columns);

/// The transpose, summed in f32 in the order of the places, and rounded once.
void fold_image(DType dtype, const WindowShape& shape, const std::byte* columns, std::byte* x);

}  // namespace cleave::ops
