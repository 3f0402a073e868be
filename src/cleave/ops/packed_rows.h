#pragma once

#include <cstddef>
#include <span>

#include "cleave/spec/dtype.h"

namespace cleave::ops {

// Rows as int8 with a scale for each block of kPackedBlock neighbours, as spec/packed_rows.h lays
// them out. A number is its level, from -127 to 127, times the scale. Scales have 16 significant
// bits, so the product is exact in f32, and rows that are unpacked and packed again stay the same.

/// Writes packed_row_words(values.size()) words. The nearest levels; ties go to the even one. A
/// block with a number that is not finite comes back as NaN, so that whoever looks finds it.
void pack_row(std::span<const float> values, std::byte* row);

void unpack_row(const std::byte* row, std::span<float> values);

/// The same to `count` numbers of `dtype`, F32 or BF16, each rounded once.
void unpack_row(const std::byte* row, DType dtype, std::byte* values, std::size_t count);

}  // namespace cleave::ops
