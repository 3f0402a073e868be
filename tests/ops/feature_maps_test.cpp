#include "cleave/ops/feature_maps.h"

#include "ops/compare.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/reference/feature_maps.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

constexpr MapShape kMap{.height = 5, .width = 4, .channels = 6};
constexpr std::int64_t kMaps = 3;

MapShape larger(std::int64_t margin) {
  return {kMap.height + 2 * margin, kMap.width + 2 * margin, kMap.channels};
}

TEST(Pad, IsItsReferenceBitByBit) {
  for (const DType dtype : {DType::F32, DType::BF16}) {
    Compute compute(2);
    Tensor x = Tensor::random(dtype, {kMaps, kMap.values()}, 1);
    Tensor y = Tensor::random(dtype, {kMaps, larger(2).values()}, 2);
    Tensor expected(dtype, {kMaps, larger(2).values()});
    pad(compute, kMap, 2, x.view(), y.view());
    reference::pad(kMap, 2, x.view(), expected.view());
    expect_same_bits(y.view(), expected.view());
  }
}

// <c, pad(x)> = <crop(c), x>, the same products in the same order but for zeros.
TEST(Crop, IsTheTransposeOfPad) {
  Compute compute(2);
  Tensor x = Tensor::random(DType::F32, {kMaps, kMap.values()}, 1);
  Tensor c = Tensor::random(DType::F32, {kMaps, larger(1).values()}, 2);
  Tensor padded(DType::F32, {kMaps, larger(1).values()});
  Tensor cropped(DType::F32, {kMaps, kMap.values()});
  pad(compute, kMap, 1, x.view(), padded.view());
  crop(compute, kMap, 1, c.view(), cropped.view());
  EXPECT_EQ(dot(c, padded), dot(cropped, x));
}

TEST(Upsample, IsItsReferenceBitByBit) {
  for (const DType dtype : {DType::F32, DType::BF16}) {
    Compute compute(2);
    Tensor x = Tensor::random(dtype, {kMaps, kMap.values()}, 1);
    Tensor y(dtype, {kMaps, 9 * kMap.values()});
    Tensor expected(dtype, {kMaps, 9 * kMap.values()});
    upsample(compute, kMap, 3, x.view(), y.view());
    reference::upsample(kMap, 3, x.view(), expected.view());
    expect_same_bits(y.view(), expected.view());
  }
}

// <c, upsample(x)> = <sum_squares(c), x>, but for one rounding of each sum of four.
TEST(SumSquares, IsTheTransposeOfUpsample) {
  Compute compute(2);
  Tensor x = Tensor::random(DType::F32, {kMaps, kMap.values()}, 1);
  Tensor c = Tensor::random(DType::F32, {kMaps, 4 * kMap.values()}, 2);
  Tensor wide(DType::F32, {kMaps, 4 * kMap.values()});
  Tensor sums(DType::F32, {kMaps, kMap.values()});
  upsample(compute, kMap, 2, x.view(), wide.view());
  sum_squares(compute, kMap, 2, c.view(), sums.view());
  EXPECT_NEAR(dot(c, wide), dot(sums, x), 4 * kRound * static_cast<double>(kMaps * kMap.values()));
}

// <c, mean(x)> = <backward(c), x>, but for one rounding of each.
TEST(MeanPixels, HasItsTransposeAsBackward) {
  Compute compute(2);
  Tensor x = Tensor::random(DType::F32, {kMaps, kMap.values()}, 1);
  Tensor c = Tensor::random(DType::F32, {kMaps, kMap.channels}, 2);
  Tensor means(DType::F32, {kMaps, kMap.channels});
  Tensor dx(DType::F32, {kMaps, kMap.values()});
  mean_pixels(compute, x.view(), means.view());
  mean_pixels_backward(compute, c.view(), dx.view());
  EXPECT_NEAR(dot(c, means), dot(dx, x), 2 * kRound * static_cast<double>(kMaps * kMap.channels));
}

TEST(GroupNorm, IsItsReference) {
  const GroupAttributes groups{.channels = kMap.channels, .groups = 3, .epsilon = 1e-5f};
  for (const DType dtype : {DType::F32, DType::BF16}) {
    Compute compute(2);
    Tensor x = Tensor::random(dtype, {kMaps, kMap.values()}, 1);
    Tensor weight = Tensor::random(dtype, {kMap.channels}, 2);
    Tensor bias = Tensor::random(dtype, {kMap.channels}, 3);
    Tensor y(dtype, {kMaps, kMap.values()});
    Tensor mean(DType::F32, {kMaps, groups.groups});
    Tensor rstd(DType::F32, {kMaps, groups.groups});
    Tensor expected(DType::F32, {kMaps, kMap.values()});
    group_norm(compute, {.x = x.view(),
                         .weight = weight.view(),
                         .bias = bias.view(),
                         .groups = groups.groups,
                         .eps = groups.epsilon,
                         .y = y.view(),
                         .mean = mean.view(),
                         .rstd = rstd.view()});
    reference::group_norm(groups, x.view(), weight.view(), bias.view(), expected.view());
    // Values up to 4 after the norm; mean, rstd, difference, two products and a sum are rounded.
    expect_close(y, expected, 6 * 4 * 2 * kRound);
  }
}

struct Normed {
  Tensor y, dx;
};

/// group_norm and its backward of maps with the channels [first, first + count) of x and dy.
Normed normed(Tensor& x, Tensor& dy, std::int64_t channels, std::int64_t first, std::int64_t count,
              std::int64_t groups) {
  const std::int64_t pixels = x.view().elements() / channels;
  const Shape shape{1, pixels * count};
  Tensor own(x.view().dtype(), shape), own_dy(x.view().dtype(), shape);
  for (std::int64_t i = 0; i < pixels * count; ++i) {
    const std::int64_t from = i / count * channels + first + i % count;
    reference::set(own.view(), {0, i}, x[from]);
    reference::set(own_dy.view(), {0, i}, dy[from]);
  }
  Tensor all_weights = Tensor::random(x.view().dtype(), {channels}, 2);
  const View weight = all_weights.view().slice(0, first, count);
  Tensor mean(DType::F32, {1, groups}), rstd(DType::F32, {1, groups});
  Normed result{Tensor(x.view().dtype(), shape), Tensor(x.view().dtype(), shape)};
  Compute compute(1);
  group_norm(compute, {.x = own.view(),
                       .weight = weight,
                       .bias = weight,
                       .groups = groups,
                       .eps = 1e-5f,
                       .y = result.y.view(),
                       .mean = mean.view(),
                       .rstd = rstd.view()});
  group_norm_backward(compute, {.dy = own_dy.view(),
                                .x = own.view(),
                                .weight = weight,
                                .mean = mean.view(),
                                .rstd = rstd.view(),
                                .dx = result.dx.view()});
  return result;
}

// Ten groups are more than are summed side by side.
TEST(GroupNorm, GivesEachGroupTheBitsThatItHasAlone) {
  constexpr std::int64_t kGroups = 10, kWidth = 3, kChannels = kGroups * kWidth;
  for (const DType dtype : {DType::F32, DType::BF16}) {
    Tensor x = Tensor::random(dtype, {1, 7 * kChannels}, 1);
    Tensor dy = Tensor::random(dtype, {1, 7 * kChannels}, 4);
    Normed all = normed(x, dy, kChannels, 0, kChannels, kGroups);
    for (std::int64_t g = 0; g < kGroups; ++g) {
      Normed alone = normed(x, dy, kChannels, g * kWidth, kWidth, 1);
      for (std::int64_t i = 0; i < 7 * kWidth; ++i) {
        const std::int64_t at = i / kWidth * kChannels + g * kWidth + i % kWidth;
        EXPECT_EQ(all.y[at], alone.y[i]) << g << " " << i;
        EXPECT_EQ(all.dx[at], alone.dx[i]) << g << " " << i;
      }
    }
  }
}

// Threads divide samples or channels, and every sum has one order.
TEST(GroupNorm, HasTheSameBitsOnAnyNumberOfThreads) {
  Tensor x = Tensor::random(DType::F32, {kMaps, kMap.values()}, 1);
  Tensor dy = Tensor::random(DType::F32, {kMaps, kMap.values()}, 4);
  Tensor mean = Tensor::random(DType::F32, {kMaps, 2}, 5);
  Tensor rstd = Tensor::random(DType::F32, {kMaps, 2}, 6);
  std::vector<Tensor> sums;
  for (const int threads : {1, 4}) {
    Compute compute(threads);
    Tensor& sum = sums.emplace_back(DType::F32, Shape{2, kMap.channels});
    add_group_norm_gradients(compute,
                             {.dy = dy.view(),
                              .x = x.view(),
                              .mean = mean.view(),
                              .rstd = rstd.view(),
                              .dweight = sum.view().slice(0, 0, 1).reshaped({kMap.channels}),
                              .dbias = sum.view().slice(0, 1, 1).reshaped({kMap.channels})});
  }
  expect_same_bits(sums[0].view(), sums[1].view());
}

}  // namespace
}  // namespace cleave::ops
