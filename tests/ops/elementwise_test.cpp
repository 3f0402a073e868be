#include "cleave/ops/elementwise.h"

#include "ops/compare.h"
#include "ops/every_target.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/reference/elementwise.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

constexpr std::int64_t kElementwiseColumns[] = {1, 7, 63, 64, 65, 768, 50257};

// Every one of these rounds once, so the reference must agree to the bit.
TEST(Elementwise, GivesTheBitsOfTheReference) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t columns : kElementwiseColumns) {
        Tensor a = Tensor::random(dtype, {3, columns}, 1);
        Tensor b = Tensor::random(dtype, {3, columns}, 2);
        Tensor out(dtype, {3, columns});
        Tensor expected(dtype, {3, columns});

        add(compute, a.view(), b.view(), out.view());
        reference::add(a.view(), b.view(), expected.view());
        expect_same_bits(out.view(), expected.view());

        scale(compute, a.view(), 0.3f, out.view());
        reference::scale(a.view(), 0.3f, expected.view());
        expect_same_bits(out.view(), expected.view());
      }
    }
  });
}

TEST(Elementwise, WeighsTwoTensors) {
  on_exact_targets([](Compute& compute) {
    for (std::int64_t columns : kElementwiseColumns) {
      Tensor a = Tensor::random(DType::F32, {3, columns}, 1);
      Tensor b = Tensor::random(DType::F32, {3, columns}, 2);
      Tensor out(DType::F32, {3, columns});
      Tensor expected(DType::F32, {3, columns});

      weighted_sum(compute, {a.view(), 0.3f}, {b.view(), -1.7f}, out.view());
      reference::weighted_sum({a.view(), 0.3f}, {b.view(), -1.7f}, expected.view());

      expect_same_bits(out.view(), expected.view());
    }
  });
}

TEST(Elementwise, CopiesBetweenFormats) {
  on_every_target([](Compute& compute) {
    for (DType from : {DType::F32, DType::BF16}) {
      for (DType to : {DType::F32, DType::BF16}) {
        Tensor a = Tensor::random(from, {5, 131}, 1);
        Tensor out(to, {5, 131});
        Tensor expected(to, {5, 131});

        copy(compute, a.view(), out.view());
        reference::copy(a.view(), expected.view());

        expect_same_bits(out.view(), expected.view());
      }
    }
  });
}

TEST(Elementwise, RoundsToNearestEvenAndKeepsNan) {
  on_every_target([](Compute& compute) {
    // Halfway down, halfway up, just above half, infinite, overflow, NaN of a low payload bit.
    const std::uint32_t bits[] = {0x3f808000, 0x3f818000, 0x3f808001, 0x7f800000,
                                  0x7f7fffff, 0x7f800001, 0xff800001, 0x80000001};
    const std::uint16_t expected[] = {0x3f80, 0x3f82, 0x3f81, 0x7f80,
                                      0x7f80, 0x7fc0, 0xffc0, 0x8000};
    Tensor a(DType::F32, {8});
    Tensor out(DType::BF16, {8});
    std::memcpy(a.view().bytes(), bits, sizeof(bits));

    copy(compute, a.view(), out.view());

    for (int i = 0; i < 8; ++i) EXPECT_EQ(out.view().as<BFloat16>()[i].bits, expected[i]) << i;
  });
}

TEST(Elementwise, TouchesOnlyTheRowsOfAStridedView) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      Tensor stored = Tensor::random(dtype, {4, 3, 50}, 1);
      Tensor before = stored;

      fill(compute, 2, stored.view().slice(1, 1, 2).slice(2, 5, 37));

      for (std::int64_t i = 0; i < 4 * 3 * 50; ++i) {
        const bool inside = i / 50 % 3 >= 1 && i % 50 >= 5 && i % 50 < 42;
        ASSERT_EQ(stored[i], inside ? 2 : before[i]) << i;
      }
    }
  });
}

TEST(Elementwise, AddsInPlace) {
  Compute compute(2);
  Tensor a = Tensor::random(DType::BF16, {100, 100}, 1);
  Tensor b = Tensor::random(DType::BF16, {100, 100}, 2);
  Tensor expected(DType::BF16, {100, 100});
  add(compute, a.view(), b.view(), expected.view());

  add(compute, a.view(), b.view(), a.view());

  expect_same_bits(a.view(), expected.view());
}

TEST(Elementwise, RefusesShapesThatDisagree) {
  Compute compute(1);
  Tensor a(DType::F32, {2, 3});
  Tensor b(DType::F32, {3, 2});

  EXPECT_THROW(add(compute, a.view(), b.view(), a.view()), InternalError);
}

}  // namespace
}  // namespace cleave::ops
