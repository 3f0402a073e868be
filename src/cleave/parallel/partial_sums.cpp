#include "cleave/parallel/partial_sums.h"

#include <bit>

#include "cleave/base/units.h"
#include "cleave/ops/elementwise.h"

namespace cleave::parallel {

int PartialSums::slots(std::int64_t count) {
  CLEAVE_CHECK(std::has_single_bit(static_cast<std::uint64_t>(count)), count, " tensors");
  return std::countr_zero(static_cast<std::uint64_t>(count)) + 1;
}

std::int64_t PartialSums::slot_bytes(std::int64_t elements, DType dtype) {
  return aligned(elements * size_of(dtype));
}

View PartialSums::slot(int index) const {
  if (index == 0) return first_;
  const std::int64_t bytes = slot_bytes(first_.elements(), first_.dtype());
  return View(more_ + (index - 1) * bytes, first_.dtype(), first_.shape());
}

View PartialSums::operator[](int k) const {
  return slot(std::popcount(static_cast<unsigned>(k)));
}

void PartialSums::merge(ops::Compute& compute, int k) const {
  int top = std::popcount(static_cast<unsigned>(k));
  for (int merges = std::countr_one(static_cast<unsigned>(k)); merges > 0; --merges, --top) {
    ops::add(compute, slot(top - 1), slot(top), slot(top - 1));
  }
}

}  // namespace cleave::parallel
