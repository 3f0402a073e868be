#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/spec/dtype.h"
#include "cleave/spec/shape.h"

namespace cleave {

/// An element of a bf16 tensor: the upper half of an f32. Only kernels look inside.
struct BFloat16 {
  std::uint16_t bits = 0;
  friend constexpr bool operator==(BFloat16, BFloat16) = default;
};

template <class T>
constexpr DType dtype_of() {
  using Element = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Element, float>) return DType::F32;
  if constexpr (std::is_same_v<Element, BFloat16>) return DType::BF16;
  if constexpr (std::is_same_v<Element, std::int32_t>) return DType::I32;
}

/// A borrowed tensor: dtype, at most four dims, strides in elements. Passed by value; never owns.
template <class Byte>
class BasicView {
 public:
  BasicView() = default;

  /// Dense and row-major.
  BasicView(Byte* data, DType dtype, Shape shape) : data_(data), dtype_(dtype), shape_(shape) {
    std::int64_t stride = 1;
    for (int dim = shape.rank() - 1; dim >= 0; --dim) {
      strides_[dim] = stride;
      stride *= shape[dim];
    }
  }
  BasicView(Byte* data, DType dtype, Shape shape, std::array<std::int64_t, Shape::kMaxRank> strides)
      : data_(data), dtype_(dtype), shape_(shape), strides_(strides) {}

  operator BasicView<const std::byte>() const requires(!std::is_const_v<Byte>) {
    return {data_, dtype_, shape_, strides_};
  }

  explicit operator bool() const { return data_ != nullptr; }
  Byte* bytes() const { return data_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  std::int64_t size(int dim) const { return shape_[dim]; }
  std::int64_t stride(int dim) const { return strides_[dim]; }
  std::int64_t elements() const { return shape_.elements(); }
  std::int64_t byte_count() const { return elements() * size_of(dtype_); }

  bool dense() const {
    std::int64_t expected = 1;
    for (int dim = rank() - 1; dim >= 0; --dim) {
      if (shape_[dim] != 1 && strides_[dim] != expected) return false;
      expected *= shape_[dim];
    }
    return true;
  }

  /// The elements as T, which must be the view's dtype.
  template <class T>
  auto as() const {
    CLEAVE_CHECK(dtype_of<T>() == dtype_, "a view of ", to_string(dtype_));
    using Element = std::conditional_t<std::is_const_v<Byte>, const T, T>;
    return reinterpret_cast<Element*>(data_);
  }

  /// Indices [begin, begin + count) of `dim`; the same memory.
  BasicView slice(int dim, std::int64_t begin, std::int64_t count) const {
    CLEAVE_CHECK(begin >= 0 && count >= 0 && begin + count <= shape_[dim], "slice ", begin, "+",
                 count, " of dim ", dim, " of ", to_string(shape_));
    BasicView out = *this;
    out.data_ = data_ + begin * strides_[dim] * size_of(dtype_);
    out.shape_ = shape_.with(dim, count);
    return out;
  }

  /// The same dense memory under another shape of equally many elements.
  BasicView reshaped(Shape shape) const {
    CLEAVE_CHECK(dense() && shape.elements() == elements(), to_string(shape_), " as ",
                 to_string(shape));
    return {data_, dtype_, shape};
  }

  /// [n] -> [rows, n], every row this one.
  BasicView repeated(std::int64_t rows) const {
    CLEAVE_CHECK(rank() == 1, "rows of ", to_string(shape_));
    return {data_, dtype_, {rows, shape_[0]}, {0, strides_[0], 0, 0}};
  }

  /// The last two dims exchanged; only the strides swap.
  BasicView transposed() const {
    const int a = rank() - 2;
    const int b = rank() - 1;
    CLEAVE_CHECK(a >= 0, "transposed ", to_string(shape_));
    BasicView out = *this;
    out.shape_ = shape_.with(a, shape_[b]).with(b, shape_[a]);
    std::swap(out.strides_[a], out.strides_[b]);
    return out;
  }

 private:
  Byte* data_ = nullptr;
  DType dtype_ = DType::F32;
  Shape shape_;
  std::array<std::int64_t, Shape::kMaxRank> strides_{};
};

using View = BasicView<std::byte>;
using ConstView = BasicView<const std::byte>;

}  // namespace cleave
