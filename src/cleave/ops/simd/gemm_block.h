#pragma once

#include <cstdint>

#include "cleave/ops/simd/gemm.h"
#include "cleave/ops/simd/gemm_kernel.h"

namespace cleave::ops {

/// The words of some rows of a, packed or where they are.
struct GemmRows {
  const std::byte* at;
  std::int64_t row, step;  ///< distances in bytes; not used if packed
  enum class Kind : std::uint8_t { InPlace, Packed } kind;
};

/// A block of rows against a block of packed columns.
struct GemmBlock {
  const GemmKernel& kernel;
  GemmRows a;
  const std::uint32_t* b;
  std::int64_t rows, columns;
  std::int64_t steps;        ///< of this product
  std::int64_t panel_steps;  ///< that the panels of b are apart; ≥ first_step + steps
  std::int64_t first_step;   ///< of each panel, that the product begins with
  GemmOut out;
};

void multiply_block(const GemmBlock& block);

/// Part of an operand: from (row, column) on.
GemmOperand part_of(GemmOperand operand, std::int64_t row, std::int64_t column);

/// Packs a [rows, depth], strips of falling height one after another.
GemmRows pack_rows(const GemmKernel& kernel, const GemmOperand& a, std::int64_t rows,
                   std::int64_t depth, std::byte* to);

/// Packs b [depth, columns], panel after panel.
void pack_columns(const GemmKernel& kernel, const GemmOperand& b, std::int64_t columns,
                  std::int64_t depth, std::uint32_t* to);

inline std::int64_t steps_of(std::int64_t depth, const GemmKernel& kernel) {
  return (depth + kernel.k_step - 1) / kernel.k_step;
}

inline std::int64_t round_up(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace cleave::ops
