#include "cleave/ops/unit_rows.h"

#include "ops/compare.h"
#include "ops/every_target.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/reference/unit_rows.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

constexpr std::int64_t kUnitRows = 37;

TEST(UnitRows, AgreeWithTheReference) {
  on_every_target([&](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t features : {1, 33, 96}) {
        Tensor x = Tensor::random(dtype, {kUnitRows, features}, 1);
        Tensor dy = Tensor::random(DType::F32, {kUnitRows, features}, 2);
        Tensor y(DType::F32, {kUnitRows, features});
        Tensor expected_y(DType::F32, {kUnitRows, features});
        Tensor inverse(DType::F32, {kUnitRows});
        Tensor expected_inverse(DType::F32, {kUnitRows});
        Tensor dx(dtype, {kUnitRows, features});
        Tensor expected_dx(DType::F32, {kUnitRows, features});

        unit_rows(compute, x.view(), y.view(), inverse.view());
        reference::unit_rows(x.view(), expected_y.view(), expected_inverse.view());
        unit_rows_backward(compute, dy.view(), x.view(), inverse.view(), dx.view());
        reference::unit_rows_backward(dy.view(), x.view(), inverse.view(), expected_dx.view());

        expect_same_bits(inverse.view(), expected_inverse.view());
        expect_same_bits(y.view(), expected_y.view());
        // Both sum in f64 and round once: |dx| is at most |dy| · inverse, below 2^9 for one feature
        // of at least 2^-9.
        expect_close(dx, expected_dx, 2 * 512 * kRound);
      }
    }
  });
}

// The derivative is a symmetric matrix: <dy, J v> = <J dy, v>, whichever of the two is the
// gradient.
TEST(UnitRows, HaveAGradientThatIsItsOwnAdjoint) {
  Tensor x = Tensor::random(DType::F32, {kUnitRows, 24}, 1);
  Tensor dy = Tensor::random(DType::F32, {kUnitRows, 24}, 2);
  Tensor v = Tensor::random(DType::F32, {kUnitRows, 24}, 3);
  Tensor y(DType::F32, {kUnitRows, 24});
  Tensor inverse(DType::F32, {kUnitRows});
  Tensor of_dy(DType::F32, {kUnitRows, 24});
  Tensor of_v(DType::F32, {kUnitRows, 24});
  Compute compute(1);

  unit_rows(compute, x.view(), y.view(), inverse.view());
  unit_rows_backward(compute, dy.view(), x.view(), inverse.view(), of_dy.view());
  unit_rows_backward(compute, v.view(), x.view(), inverse.view(), of_v.view());

  // 888 products of at most 1, each with one rounding on either side.
  EXPECT_NEAR(dot(dy, of_v), dot(of_dy, v), 888 * 2 * kRound);
  EXPECT_NE(dot(dy, of_v), 0);
}

TEST(UnitRows, LeaveRowsOfZerosAlone) {
  Tensor x(DType::F32, {1, 3});
  for (std::int64_t i = 0; i < 3; ++i) x.view().as<float>()[i] = 0;
  Tensor y = Tensor::random(DType::F32, {1, 3}, 1);
  Tensor inverse(DType::F32, {1});
  Compute compute(1);

  unit_rows(compute, x.view(), y.view(), inverse.view());

  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(y[i], 0);
}

}  // namespace
}  // namespace cleave::ops
