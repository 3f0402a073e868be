#include "cleave/ops/windows.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/compare.h"
#include "ops/every_target.h"
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

std::uint32_t bits_of(Tensor& tensor, std::int64_t i) {
  const ConstView view = tensor.view();
  std::uint32_t bits = 0;
  std::memcpy(&bits, view.bytes() + i * size_of(view.dtype()),
              static_cast<std::size_t>(size_of(view.dtype())));
  return bits;
}

/// Of each sign, zeros, infinities and NaN with bits of their own.
Tensor few_values(DType dtype, const Shape& shape) {
  constexpr std::uint16_t kUpper[] = {0x3f80, 0xbf80, 0x0000, 0x8000, 0x4000, 0x3f80, 0x7f80,
                                      0xff80, 0x4000, 0x0001, 0x8001, 0x3f80, 0x4000};
  constexpr std::uint16_t kNaN[] = {0x7fc1, 0xffc2, 0xff81};
  Tensor tensor(dtype, shape);
  std::byte* at = tensor.view().bytes();
  for (std::int64_t i = 0; i < tensor.view().elements(); ++i) {
    const std::uint16_t upper = i % 29 == 5 ? kNaN[i % 3] : kUpper[i * i % 13];
    const std::uint32_t word = std::uint32_t{upper} << 16;
    if (dtype == DType::BF16)
      std::memcpy(at + i * 2, &upper, 2);
    else
      std::memcpy(at + i * 4, &word, 4);
  }
  return tensor;
}

/// Every result of max_pool has the bits of the value that its gradient goes to.
void expect_pooled(Compute& compute, const WindowShape& shape, Tensor& x) {
  const Shape pooled{x.view().size(0), shape.places() * shape.channels};
  Tensor y(x.view().dtype(), pooled);
  Tensor number(DType::F32, pooled);  // of a result, from 1
  Tensor taken_by(DType::F32, x.view().shape());
  for (std::int64_t i = 0; i < number.view().elements(); ++i)
    number.view().as<float>()[i] = static_cast<float>(i + 1);

  max_pool(compute, shape, x.view(), y.view());
  reference::max_pool_backward(shape, x.view(), number.view(), taken_by.view());

  std::int64_t taken = 0;
  for (std::int64_t i = 0; i < x.view().elements(); ++i) {
    if (taken_by[i] == 0) continue;
    ++taken;
    EXPECT_EQ(bits_of(y, static_cast<std::int64_t>(taken_by[i]) - 1), bits_of(x, i)) << i;
  }
  EXPECT_EQ(taken, y.view().elements());
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

// Sizes of runs that have copies of their own and one that has not, strides that leave pixels out,
// channels that fill vectors, that do not, and more of them than a tile on the stack holds; the
// last two are wider than such a tile.
constexpr WindowShape kRuns[] = {
    {.height = 5, .width = 6, .channels = 3, .size = 1, .stride = 2},
    {.height = 6, .width = 5, .channels = 1, .size = 2, .stride = 1},
    {.height = 7, .width = 6, .channels = 17, .size = 3, .stride = 1},
    {.height = 9, .width = 10, .channels = 2, .size = 4, .stride = 3},
    {.height = 12, .width = 12, .channels = 6, .size = 5, .stride = 1},
    {.height = 8, .width = 9, .channels = 4, .size = 7, .stride = 1},
    {.height = 30, .width = 30, .channels = 11, .size = 3, .stride = 1},
    {.height = 15, .width = 600, .channels = 9, .size = 3, .stride = 2},
    {.height = 2, .width = 8200, .channels = 2, .size = 2, .stride = 1},
    {.height = 2, .width = 8200, .channels = 1, .size = 2, .stride = 1},
};

TEST(UnfoldAndFold, HaveTheBitsOfTheirPlainTwins) {
  Compute compute(2);
  for (DType dtype : {DType::F32, DType::BF16}) {
    for (const WindowShape& shape : kRuns) {
      SCOPED_TRACE(shape.size * 1000 + shape.channels);
      Tensor x = Tensor::random(dtype, {kSamples, shape.values()}, 1);
      Tensor c = Tensor::random(dtype, {kSamples * shape.places(), row_values(shape)}, 2);
      Tensor columns(dtype, c.view().shape());
      Tensor expected_columns(dtype, c.view().shape());
      Tensor folded(dtype, x.view().shape());
      Tensor expected(dtype, x.view().shape());

      unfold(compute, shape, x.view(), columns.view());
      reference::unfold(shape, x.view(), expected_columns.view());
      fold(compute, shape, c.view(), folded.view());
      reference::fold(shape, c.view(), expected.view());

      expect_same_bits(columns.view(), expected_columns.view());
      expect_same_bits(folded.view(), expected.view());
    }
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

// Values from few, so that squares have several largest ones, and a NaN here and there. Channels
// make whole vectors and rests of them; squares leave pixels out, between them and at the margin.
TEST(MaxPool, HasTheBitsOfItsPlainTwinOnEveryTarget) {
  const WindowShape shapes[] = {
      {.height = 6, .width = 4, .channels = 6, .size = 2, .stride = 2},
      {.height = 7, .width = 9, .channels = 16, .size = 3, .stride = 3},
      {.height = 8, .width = 7, .channels = 37, .size = 2, .stride = 3},
      {.height = 3, .width = 3, .channels = 1, .size = 1, .stride = 1},
  };
  on_every_target([&](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (const WindowShape& shape : shapes) {
        Tensor x = few_values(dtype, {kSamples, shape.values()});
        Tensor dy = Tensor::random(dtype, {kSamples, shape.places() * shape.channels}, 2);
        Tensor dx(dtype, x.view().shape());
        Tensor expected(dtype, x.view().shape());

        max_pool_backward(compute, shape, x.view(), dy.view(), dx.view());
        reference::max_pool_backward(shape, x.view(), dy.view(), expected.view());

        expect_same_bits(dx.view(), expected.view());
        expect_pooled(compute, shape, x);
      }
    }
  });
}

TEST(Relu, KeepsTheBitsOfWhatIsAboveZeroOnEveryTarget) {
  on_every_target([&](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      Tensor x = few_values(dtype, {3, 53});
      Tensor dy = Tensor::random(dtype, {3, 53}, 2);
      Tensor y(dtype, {3, 53});
      Tensor dx(dtype, {3, 53});

      relu(compute, x.view(), y.view());
      relu_backward(compute, x.view(), dy.view(), dx.view());

      for (std::int64_t i = 0; i < x.view().elements(); ++i) {
        const bool zero = x[i] <= 0;
        EXPECT_EQ(bits_of(y, i), zero ? 0U : bits_of(x, i)) << i;
        EXPECT_EQ(bits_of(dx, i), zero ? 0U : bits_of(dy, i)) << i;
      }
    }
  });
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
