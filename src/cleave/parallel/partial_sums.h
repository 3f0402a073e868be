#pragma once

#include <cstddef>
#include <cstdint>

#include "cleave/ops/compute.h"
#include "cleave/tensor/view.h"

namespace cleave::parallel {

/// The sum of tensors that come one after another, by the pairwise tree over their number.
///
/// Like a binary counter: tensor k is written into slot popcount(k), and as many neighbours merge
/// after it as k has trailing ones. So 2^n tensors need n + 1 slots.
class PartialSums {
 public:
  /// `first` is slot 0, where the sum ends up; `more` has slots(count) - 1 further ones.
  PartialSums(View first, std::byte* more) : first_(first), more_(more) {}

  /// How many slots `count` tensors need, a power of two.
  static int slots(std::int64_t count);
  /// Bytes of one further slot.
  static std::int64_t slot_bytes(std::int64_t elements, DType dtype);

  /// Where tensor `k` goes.
  View operator[](int k) const;
  /// The caller says with this that tensor `k` is written.
  void merge(ops::Compute& compute, int k) const;

 private:
  View slot(int index) const;

  View first_;
  std::byte* more_;
};

}  // namespace cleave::parallel
