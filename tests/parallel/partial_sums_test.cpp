#include "cleave/parallel/partial_sums.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "support/random.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"

namespace cleave::parallel {
namespace {

constexpr std::int64_t kElements = 37;

using Values = std::vector<float>;

/// The definition: the sum of each half, added.
Values pairwise(std::span<const Values> tensors) {
  if (tensors.size() == 1) return tensors[0];
  const std::size_t half = tensors.size() / 2;
  Values sum = pairwise(tensors.first(half));
  const Values right = pairwise(tensors.subspan(half));
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += right[i];
  return sum;
}

// Magnitudes from 2^-8 to 2^8, so that another order gives other bits.
std::vector<Values> uneven_tensors(int count) {
  std::vector<Values> tensors;
  for (int k = 0; k < count; ++k) {
    tensors.push_back(testing::random_values(kElements, static_cast<std::uint32_t>(k)));
    for (std::size_t i = 0; i < kElements; ++i)
      tensors.back()[i] *= std::ldexp(1.0f, static_cast<int>((i + 3 * k) % 17) - 8);
  }
  return tensors;
}

TEST(PartialSums, AreThePairwiseTreeToTheBit) {
  ops::Compute compute(1);
  for (const int count : {1, 2, 4, 8, 16}) {
    const std::vector<Values> tensors = uneven_tensors(count);
    Values first(kElements);
    const std::int64_t slot = PartialSums::slot_bytes(kElements, DType::F32);
    std::vector<std::byte> more(static_cast<std::size_t>((PartialSums::slots(count) - 1) * slot));
    const PartialSums sums(
        View(reinterpret_cast<std::byte*>(first.data()), DType::F32, {kElements}), more.data());

    for (int k = 0; k < count; ++k) {
      std::ranges::copy(tensors[k], sums[k].as<float>());
      sums.merge(compute, k);
    }

    EXPECT_EQ(first, pairwise(tensors)) << count;
  }
}

TEST(PartialSums, NeedASlotForEachLevelOfTheTree) {
  EXPECT_EQ(PartialSums::slots(1), 1);
  EXPECT_EQ(PartialSums::slots(8), 4);
  EXPECT_THROW(PartialSums::slots(6), InternalError);
}

}  // namespace
}  // namespace cleave::parallel
