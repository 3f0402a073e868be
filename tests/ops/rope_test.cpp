#include "cleave/ops/rope.h"

#include "ops/compare.h"
#include "ops/every_target.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/reference/rope.h"
#include "cleave/spec/rope_spec.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

constexpr std::int64_t kRotated = 21;
constexpr std::int64_t kRotatedSequence = 7;

struct RopeTables {
  explicit RopeTables(std::int64_t d)
      : cos(DType::F32, {kRotatedSequence + 3, d / 2}),
        sin(DType::F32, {kRotatedSequence + 3, d / 2}) {
    fill_rope_tables(rope_frequencies(10000, d), 1, cos.view(), sin.view());
  }
  RopeArgs args(View x, Rotation rotation = Rotation::Forward) {
    return {.x = x,
            .cos = cos.view(),
            .sin = sin.view(),
            .sequence = kRotatedSequence,
            .first_position = 3,
            .rotation = rotation};
  }

  Tensor cos, sin;
};

TEST(Rope, AgreesWithTheReferenceOnAStridedView) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t d : {2, 6, 64, 80, 128}) {
        RopeTables tables(d);
        // The first two of three heads, as q lies in q, k, v.
        Tensor x = Tensor::random(dtype, {kRotated, 3, d}, 1);
        Tensor expected(DType::F32, {kRotated, 3, d});
        for (std::int64_t i = 0; i < kRotated * 3 * d; ++i) {
          expected.view().as<float>()[i] = x[i];
        }

        rope(compute, tables.args(x.view().slice(1, 0, 2)));
        reference::rope(tables.args(expected.view().slice(1, 0, 2)));

        // Two products below 1 and their sum.
        expect_close(x, expected, 4 * kRound);
      }
    }
  });
}

TEST(Rope, BackwardUndoesForward) {
  Compute compute(1);
  RopeTables tables(64);
  Tensor x = Tensor::random(DType::F32, {kRotated, 2, 64}, 1);
  Tensor before = x;

  rope(compute, tables.args(x.view()));
  EXPECT_NE(x[10 * 64], before[10 * 64]);
  rope(compute, tables.args(x.view(), Rotation::Backward));

  // cos and sin are rounded, so cos² + sin² misses 1 by two units; twice the error of a rotation.
  expect_close(x, before, 12 * kRound);
}

// The gradient of a rotation is its adjoint: ⟨dy, R x⟩ = ⟨Rᵀ dy, x⟩.
TEST(Rope, BackwardIsTheAdjointOfForward) {
  RopeTables tables(10);
  Tensor x = Tensor::random(DType::F32, {kRotated, 2, 10}, 1);
  Tensor dy = Tensor::random(DType::F32, {kRotated, 2, 10}, 2);
  Tensor y = x;
  Tensor dx = dy;

  reference::rope(tables.args(y.view()));
  reference::rope(tables.args(dx.view(), Rotation::Backward));

  EXPECT_NEAR(dot(dy, y), dot(dx, x), 2 * kRotated * 2 * 10 * kRound);
}

TEST(Rope, TablesFollowTheDefinition) {
  RopeTables tables(8);
  for (std::int64_t p = 0; p < kRotatedSequence + 3; ++p) {
    for (std::int64_t i = 0; i < 4; ++i) {
      const double angle = static_cast<double>(p) / std::pow(10000, 2 * static_cast<double>(i) / 8);
      EXPECT_NEAR(tables.cos[p * 4 + i], std::cos(angle), kRound);
      EXPECT_NEAR(tables.sin[p * 4 + i], std::sin(angle), kRound);
    }
  }
}

TEST(Rope, TablesCarryTheMagnitude) {
  Tensor cos(DType::F32, {3, 2}), sin = cos;
  fill_rope_tables(std::vector<double>{1, 0.5}, 1.25, cos.view(), sin.view());
  for (std::int64_t p = 0; p < 3; ++p) {
    EXPECT_NEAR(cos[2 * p + 1], 1.25 * std::cos(0.5 * static_cast<double>(p)), 2 * kRound);
    EXPECT_NEAR(sin[2 * p + 1], 1.25 * std::sin(0.5 * static_cast<double>(p)), 2 * kRound);
  }
}

TEST(Rope, LeavesWhatLiesBeyondThePairs) {
  Compute compute(1);
  RopeTables tables(6);
  Tensor x = Tensor::random(DType::F32, {kRotated, 2, 10}, 1);
  Tensor expected = x;

  rope(compute, tables.args(x.view()));
  reference::rope(tables.args(expected.view().slice(2, 0, 6)));

  expect_close(x, expected, 4 * kRound);
}

}  // namespace
}  // namespace cleave::ops
