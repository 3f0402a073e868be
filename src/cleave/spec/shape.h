#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "cleave/base/check.h"

namespace cleave {

/// The sizes of a tensor's dims, at most four, outermost first.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<std::int64_t> sizes) {
    CLEAVE_CHECK(sizes.size() <= kMaxRank, sizes.size(), " dims");
    for (std::int64_t size : sizes) sizes_[rank_++] = size;
  }

  constexpr int rank() const { return rank_; }
  constexpr std::int64_t operator[](int dim) const { return sizes_[dim]; }
  constexpr std::int64_t elements() const {
    std::int64_t count = 1;
    for (int dim = 0; dim < rank_; ++dim) count *= sizes_[dim];
    return count;
  }

  /// The same shape with another size of `dim`.
  constexpr Shape with(int dim, std::int64_t size) const {
    Shape out = *this;
    out.sizes_[dim] = size;
    return out;
  }

  friend constexpr bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
};

/// "[4, 256, 768]".
inline std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int dim = 0; dim < shape.rank(); ++dim) {
    if (dim > 0) text += ", ";
    text += std::to_string(shape[dim]);
  }
  return text + "]";
}

}  // namespace cleave
