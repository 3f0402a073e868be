#pragma once

#include <cstdint>

#include "cleave/ops/simd/rows.h"
#include "cleave/tensor/bf16.h"

namespace cleave::ops {

/// A row of f32 or bf16 elements, read as f64: for ops that are no part of what takes time.
class ConstRow {
 public:
  ConstRow(ConstView view, std::int64_t row, std::int64_t column = 0)
      : at_(row_bytes(view, row, column)), dtype_(view.dtype()) {}

  double at(std::int64_t i) const {
    if (dtype_ == DType::F32) return static_cast<double>(reinterpret_cast<const float*>(at_)[i]);
    return static_cast<double>(to_float(reinterpret_cast<const BFloat16*>(at_)[i]));
  }

 private:
  const std::byte* at_;
  DType dtype_;
};

/// The same, to write: rounds once to f32, and then to bf16 where rows are of it.
class Row {
 public:
  Row(View view, std::int64_t row, std::int64_t column = 0)
      : at_(row_bytes(view, row, column)), dtype_(view.dtype()) {}

  void set(std::int64_t i, double value) const {
    const auto rounded = static_cast<float>(value);
    if (dtype_ == DType::F32) {
      reinterpret_cast<float*>(at_)[i] = rounded;
    } else {
      reinterpret_cast<BFloat16*>(at_)[i] = to_bf16(rounded);
    }
  }

 private:
  std::byte* at_;
  DType dtype_;
};

}  // namespace cleave::ops
