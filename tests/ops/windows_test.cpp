#include "cleave/ops/windows.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/compare.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/matmul.h"
#include "cleave/ops/reference/windows.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

constexpr WindowShape kWindows[] = {
    {.height = 7, .width = 6, .channels = 3, .size = 3, .stride = 1},
    {.height = 9, .width = 9, .channels = 2, .size = 3, .stride = 2},
    {.height = 5, .width = 5, .channels = 1, .size = 5, .stride = 1},
};
constexpr std::int64_t kSamples = 3;

std::int64_t row_values(const WindowShape& shape) {
  return shape.channels * shape.size * shape.size;
}

TEST(Unfold, MakesAConvolutionAProduct) {
  Compute compute(2);
  Tensor scratch(DType::F32, {1 << 18});
  compute.set_scratch({scratch.view().bytes(), std::size_t{1} << 20});
  for (const WindowShape& shape : kWindows) {
    const std::int64_t out = 4;
    Tensor x = Tensor::random(DType::F32, {kSamples, shape.values()}, 1);
    Tensor w = Tensor::random(DType::F32, {out, row_values(shape)}, 2);
    Tensor bias = Tensor::random(DType::F32, {out}, 3);
    Tensor columns(DType::F32, {kSamples * shape.places(), row_values(shape)});
    Tensor y(DType::F32, {kSamples * shape.places(), out});
    Tensor expected(DType::F32, {kSamples, shape.places() * out});

    unfold(compute, shape, x.view(), columns.view());
    matmul(compute, columns.view(), ConstView(w.view()).transposed(), y.view(),
           {.bias = bias.view()});
    reference::convolution(shape, x.view(), w.view(), bias.view(), expected.view());

    // Values below 1, one rounding for each of the products and sums of a row.
    const double tolerance = 2 * kRound * static_cast<double>(row_values(shape) + 1);
    for (std::int64_t i = 0; i < expected.view().elements(); ++i)
      EXPECT_NEAR(y[i], expected[i], tolerance * static_cast<double>(row_values(shape) + 1));
  }
}

// <c, unfold(x)> = <fold(c), x>: both are sums of the same products, so they differ by rounding
// only.
TEST(Fold, IsTheTransposeOfUnfold) {
  Compute compute(2);
  for (DType dtype : {DType::F32, DType::BF16}) {
    for (const WindowShape& shape : kWindows) {
      Tensor x = Tensor::random(dtype, {kSamples, shape.values()}, 1);
      Tensor c = Tensor::random(dtype, {kSamples * shape.places(), row_values(shape)}, 2);
      Tensor columns(dtype, {kSamples * shape.places(), row_values(shape)});
      Tensor folded(dtype, {kSamples, shape.values()});

      unfold(compute, shape, x.view(), columns.view());
      fold(compute, shape, c.view(), folded.view());

      const double epsilon = dtype == DType::F32 ? kRound : 0x1p-8;
      const auto terms = static_cast<double>(c.view().elements());
      EXPECT_NEAR(dot(c, columns), dot(folded, x), epsilon * terms);
    }
  }
}

TEST(MaxPool, TakesTheLargestOfEachSquareAndGivesItTheGradient) {
  Compute compute(2);
  const WindowShape shape{.height = 6, .width = 4, .channels = 3, .size = 2, .stride = 2};
  for (DType dtype : {DType::F32, DType::BF16}) {
    Tensor x = Tensor::random(dtype, {kSamples, shape.values()}, 1);
    Tensor dy = Tensor::random(dtype, {kSamples, shape.places() * shape.channels}, 2);
    Tensor y(dtype, {kSamples, shape.places() * shape.channels});
    Tensor expected(dtype, {kSamples, shape.places() * shape.channels});
    Tensor dx(dtype, {kSamples, shape.values()});

    max_pool(compute, shape, x.view(), y.view());
    reference::max_pool(shape, x.view(), expected.view());
    max_pool_backward(compute, shape, x.view(), dy.view(), dx.view());

    expect_same_bits(y.view(), expected.view());
    // The slope along dx itself: only the largest values move the result.
    EXPECT_DOUBLE_EQ(dot(dx, x), dot(dy, y));
  }
}

TEST(Relu, PassesWhatIsAboveZeroAndNothingElse) {
  Compute compute(1);
  const float values[] = {-1, 0, 2, std::numeric_limits<float>::quiet_NaN()};
  Tensor x(DType::F32, {1, 4});
  std::memcpy(x.view().bytes(), values, sizeof(values));
  Tensor dy(DType::F32, {1, 4});
  for (int i = 0; i < 4; ++i) dy.view().as<float>()[i] = 5;
  Tensor y(DType::F32, {1, 4});
  Tensor dx(DType::F32, {1, 4});

  relu(compute, x.view(), y.view());
  relu_backward(compute, x.view(), dy.view(), dx.view());

  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[2], 2);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_EQ(dx[0], 0);
  EXPECT_EQ(dx[1], 0);
  EXPECT_EQ(dx[2], 5);
}

TEST(Channels, ComeBackWhereTheyWere) {
  Compute compute(1);
  Tensor x = Tensor::random(DType::BF16, {2, 12}, 1);
  Tensor first(DType::BF16, {2, 12});
  Tensor back(DType::BF16, {2, 12});

  to_channels_first(compute, 3, x.view(), first.view());
  to_channels_last(compute, 3, first.view(), back.view());

  expect_same_bits(back.view(), x.view());
  EXPECT_EQ(first[1], x[3]);  // the second pixel of the first channel
}

}  // namespace
}  // namespace cleave::ops
