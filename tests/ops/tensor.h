#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "support/random.h"

#include "cleave/ops/reference/element.h"
#include "cleave/tensor/view.h"

namespace cleave::testing {

/// A dense tensor that owns its memory.
class Tensor {
 public:
  Tensor(DType dtype, Shape shape)
      : dtype_(dtype), shape_(shape), lines_(shape.elements() * size_of(dtype) / 64 + 1) {}

  /// Values in [-1, 1), rounded to the dtype.
  static Tensor random(DType dtype, Shape shape, std::uint32_t seed) {
    Tensor tensor(dtype, shape);
    const std::vector<float> values = random_values(shape.elements(), seed);
    const View flat = tensor.view().reshaped({shape.elements()});
    for (std::int64_t i = 0; i < shape.elements(); ++i) ops::reference::set(flat, {i}, values[i]);
    return tensor;
  }

  View view() { return {lines_[0].bytes, dtype_, shape_}; }
  float operator[](std::int64_t i) {
    return ops::reference::get(view().reshaped({shape_.elements()}), {i});
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };

  DType dtype_;
  Shape shape_;
  std::vector<Line> lines_;
};

/// Scratch for a Compute: 64-byte aligned bytes.
class Scratch {
 public:
  explicit Scratch(std::int64_t bytes) : tensor_(DType::F32, {(bytes + 3) / 4}), bytes_(bytes) {}
  std::span<std::byte> bytes() {
    return {tensor_.view().bytes(), static_cast<std::size_t>(bytes_)};
  }

 private:
  Tensor tensor_;
  std::int64_t bytes_;
};

}  // namespace cleave::testing
