#include "cleave/ops/reduce.h"

#include <cmath>
#include <limits>
#include <vector>

#include "ops/compare.h"
#include "ops/every_target.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/reference/elementwise.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

TEST(ColumnSums, AgreeWithTheReference) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t columns : {1, 7, 63, 64, 65, 768, 2500}) {
        for (std::int64_t rows : {1, 7, 8, 67}) {
          Tensor a = Tensor::random(dtype, {rows, columns}, 1);
          Tensor out = Tensor::random(DType::F32, {columns}, 2);
          Tensor expected = out;

          add_column_sums(compute, a.view(), out.view());
          reference::add_column_sums(a.view(), expected.view());

          // At most one rounding per row, of a partial sum of at most that many numbers below 1.
          const auto count = static_cast<double>(rows + 1);
          expect_close(out, expected, count * count * kRound);
        }
      }
    }
  });
}

TEST(ColumnSums, AreTheSameBitsOnEveryTargetAndThreadCount) {
  Tensor a = Tensor::random(DType::BF16, {100, 1500}, 1);
  Tensor first(DType::F32, {1500});
  Compute one(1);
  add_column_sums(one, a.view(), first.view());
  on_every_target([&](Compute& compute) {
    Tensor out(DType::F32, {1500});
    add_column_sums(compute, a.view(), out.view());
    expect_same_bits(out.view(), first.view());
  });
}

TEST(SumOfSquares, IsPerBlockAndInF64) {
  on_every_target([](Compute& compute) {
    for (std::int64_t count : {1, 5, 4095, 4096, 4097, 20000}) {
      Tensor a = Tensor::random(DType::F32, {count}, 1);
      std::vector<double> blocks((count + kSquaresBlock - 1) / kSquaresBlock);

      sum_of_squares(compute, a.view(), blocks);

      for (std::size_t block = 0; block < blocks.size(); ++block) {
        double expected = 0;
        const auto first = static_cast<std::int64_t>(block) * kSquaresBlock;
        for (std::int64_t i = first; i < std::min(count, first + kSquaresBlock); ++i) {
          expected += static_cast<double>(a[i]) * a[i];
        }
        // Squares of f32 are exact in f64; 4096 additions in another order.
        EXPECT_NEAR(blocks[block], expected, 4096 * 0x1p-53 * expected);
      }
    }
  });
}

// What ZeRO relies on: cut at a block border, the pieces give the blocks of the whole.
TEST(SumOfSquares, BlocksDoNotDependOnTheirPlace) {
  on_every_target([](Compute& compute) {
    Tensor a = Tensor::random(DType::F32, {10000}, 1);
    std::vector<double> whole(3);
    std::vector<double> tail(2);

    sum_of_squares(compute, a.view(), whole);
    sum_of_squares(compute, a.view().slice(0, kSquaresBlock, 10000 - kSquaresBlock), tail);

    EXPECT_EQ(tail[0], whole[1]);
    EXPECT_EQ(tail[1], whole[2]);
  });
}

TEST(AllFinite, FindsOneBadElementAnywhere) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (float bad : {NAN, INFINITY, -INFINITY}) {
        for (std::int64_t place : {0, 63, 64, 4100, 8998}) {
          Tensor a = Tensor::random(dtype, {3, 3000}, 1);
          ASSERT_TRUE(all_finite(compute, a.view()));

          reference::set(a.view().reshaped({9000}), {place}, bad);

          EXPECT_FALSE(all_finite(compute, a.view())) << bad << " at " << place;
        }
      }
    }
  });
}

TEST(AllFinite, AcceptsTheLargestNumbers) {
  Compute compute(1);
  Tensor a(DType::F32, {1000});
  for (int i = 0; i < 1000; ++i) a.view().as<float>()[i] = std::numeric_limits<float>::max();

  EXPECT_TRUE(all_finite(compute, a.view()));
}

}  // namespace
}  // namespace cleave::ops
