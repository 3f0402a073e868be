#pragma once

#include <cstddef>

#include "cleave/spec/dtype.h"

namespace cleave::ops {

// Kernels over contiguous elements, for ops that are plain loops around them. `dtype` is F32 or
// BF16, `n` counts elements, and the output may be the same memory as an argument.

/// out = a + b.
void add_span(DType dtype, const std::byte* a, const std::byte* b, std::byte* out, std::size_t n);

/// out = factor · a.
void scale_span(DType dtype, const std::byte* a, float factor, std::byte* out, std::size_t n);

/// out += a, where only `a` has the dtype.
void accumulate_span(DType dtype, const std::byte* a, float* out, std::size_t n);

/// out += factor · a, where the product is rounded too.
void accumulate_scaled_span(DType dtype, const std::byte* a, float factor, float* out,
                            std::size_t n);

}  // namespace cleave::ops
