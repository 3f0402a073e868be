#include "cleave/base/permutation.h"

#include <vector>

#include <gtest/gtest.h>

namespace cleave {
namespace {

TEST(Permutation, VisitsEverythingOnceInEveryEpoch) {
  for (std::uint64_t size : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4097}) {
    const Permutation order(size, 7, "test");
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<int> seen(size);
      for (std::uint64_t i = 0; i < size; ++i) ++seen.at(order.at(epoch, i));
      EXPECT_EQ(seen, std::vector<int>(size, 1)) << size;
    }
  }
}

TEST(Permutation, ReachesFarIntoLargeRanges) {
  const std::uint64_t size = (std::uint64_t{1} << 40) + 12345;
  const Permutation order(size, 7, "test");
  std::uint64_t largest = 0;
  for (std::uint64_t i = 0; i < 100; ++i) largest = std::max(largest, order.at(0, i));
  EXPECT_GT(largest, size / 10 * 9);  // missed by 100 uniform draws once in 40,000 seeds
  EXPECT_LT(largest, size);
}

TEST(Permutation, DependsOnSeedPurposeAndEpoch) {
  const auto first = [](std::uint64_t seed, const char* purpose, std::uint64_t epoch) {
    const Permutation order(1'000'000, seed, purpose);
    return std::vector{order.at(epoch, 0), order.at(epoch, 1), order.at(epoch, 2)};
  };
  EXPECT_EQ(first(1, "a", 0), first(1, "a", 0));
  EXPECT_NE(first(1, "a", 0), first(2, "a", 0));
  EXPECT_NE(first(1, "a", 0), first(1, "b", 0));
  EXPECT_NE(first(1, "a", 0), first(1, "a", 1));
}

// The first element over many epochs hits each of 10 places equally often: each count is binomial
// with mean 1000 and deviation 30, so six deviations are never left by chance.
TEST(Permutation, IsUniformOverEpochs) {
  const Permutation order(10, 3, "test");
  std::vector<int> count(10);
  for (std::uint64_t epoch = 0; epoch < 10'000; ++epoch) ++count[order.at(epoch, 0)];
  for (int c : count) EXPECT_NEAR(c, 1000, 180);
}

}  // namespace
}  // namespace cleave
