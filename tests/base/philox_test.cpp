#include "cleave/base/philox.h"

#include <cmath>

#include <gtest/gtest.h>

namespace cleave {
namespace {

using Block = std::array<std::uint32_t, 4>;

// The known answers of Random123, the authors' own implementation.
TEST(Philox, MatchesThePublishedVectors) {
  EXPECT_EQ(Philox::generate({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(
      Philox::generate({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
      (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      Philox::generate({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, PurposeAndNameSelectDifferentNumbers) {
  EXPECT_NE(Philox(1, "init", "a").block(0), Philox(1, "init", "b").block(0));
  EXPECT_NE(Philox(1, "ab", "c").block(0), Philox(1, "a", "bc").block(0));
  EXPECT_EQ(Philox(1, "init", "a").block(7), Philox(1, "init", "a").block(7));
}

TEST(Philox, NormalHasUnitVarianceAndNoMean) {
  const Philox random(3, "test");
  double sum = 0;
  double squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double value = random.normal(i);
    sum += value;
    squares += value * value;
  }
  // Five standard errors: 1/sqrt(n) for the mean, sqrt(2/n) for the variance.
  EXPECT_LT(std::abs(sum / kCount), 5 / std::sqrt(kCount));
  EXPECT_LT(std::abs(squares / kCount - 1), 5 * std::sqrt(2.0 / kCount));
}

TEST(Philox, FillGivesTheSameNumbersOneByOne) {
  const Philox random(3, "test");
  for (std::uint64_t first : {0, 1, 2, 3, 4, 1001}) {
    std::array<float, 11> filled{};
    random.fill_normal(first, filled);
    for (std::size_t i = 0; i < filled.size(); ++i) EXPECT_EQ(filled[i], random.normal(first + i));
  }
}

TEST(Philox, BelowStaysBelow) {
  const Philox random(3, "test");
  for (std::uint64_t bound : {1ull, 2ull, 3ull, 1000003ull, 1ull << 63}) {
    for (int i = 0; i < 1000; ++i) EXPECT_LT(random.below(bound, i), bound);
  }
}

}  // namespace
}  // namespace cleave
