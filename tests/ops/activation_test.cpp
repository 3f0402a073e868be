#include "cleave/ops/activation.h"

#include "ops/compare.h"
#include "ops/every_target.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/elementwise.h"
#include "cleave/ops/reference/activation.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

constexpr std::int64_t kActivationColumns[] = {1, 7, 63, 64, 65, 768};

/// Values in [-spread, spread).
Tensor spread_values(DType dtype, Shape shape, float spread, std::uint32_t seed) {
  Compute compute(1);
  Tensor x = Tensor::random(dtype, shape, seed);
  scale(compute, x.view(), spread, x.view());
  return x;
}

// In units of kRound: the argument of the sigmoid carries 5, and moves its result by s (1 - s) |u|
// < 0.3 of that; exp adds 4, the division and products 5. The result is x times this.
constexpr double kGeluError = 12 * kRound;

TEST(Gelu, AgreesWithTheReference) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t columns : kActivationColumns) {
        for (float spread : {1.0f, 30.0f}) {
          Tensor x = spread_values(dtype, {9, columns}, spread, 1);
          Tensor y(dtype, {9, columns});
          Tensor expected(DType::F32, {9, columns});

          gelu(compute, x.view(), y.view());
          reference::gelu(x.view(), expected.view());

          expect_close(y, expected, kGeluError * spread);
        }
      }
    }
  });
}

// The slope adds u' x s (1 - s), where |u' x| reaches 1.6 · 30 + 0.2 · 30³ but s (1 - s) |u' x|
// stays below 3; its relative error is that of s (1 - s): 5 |u| + 12, and s (1 - s) u² < 2.
TEST(Gelu, BackwardAgreesWithTheReference) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t columns : kActivationColumns) {
        for (float spread : {1.0f, 30.0f}) {
          Tensor x = spread_values(dtype, {9, columns}, spread, 1);
          Tensor dy = Tensor::random(dtype, {9, columns}, 2);
          Tensor dx(dtype, {9, columns});
          Tensor expected(DType::F32, {9, columns});

          gelu_backward(compute, x.view(), dy.view(), dx.view());
          reference::gelu_backward(x.view(), dy.view(), expected.view());

          expect_close(dx, expected, 80 * kRound);
        }
      }
    }
  });
}

TEST(Gelu, ReferenceBackwardIsTheSlopeOfForward) {
  Tensor x = Tensor::random(DType::F32, {1, 50}, 1);
  Tensor dy = Tensor::random(DType::F32, {1, 50}, 2);
  Tensor y(DType::F32, {1, 50});
  Tensor dx(DType::F32, {1, 50});
  reference::gelu_backward(x.view(), dy.view(), dx.view());
  const auto loss = [&] {
    reference::gelu(x.view(), y.view());
    return dot(y, dy);
  };

  for (int i = 0; i < 50; ++i) {
    EXPECT_NEAR(dx[i], slope(x.view().as<float>()[i], loss), 50 * kRound * 1.5 * 64);
  }
}

TEST(Gelu, SaturatesWithoutOverflow) {
  on_every_target([](Compute& compute) {
    Tensor x(DType::F32, {1, 4});
    const float values[] = {1e30f, -1e30f, 200.0f, -200.0f};
    std::memcpy(x.view().bytes(), values, sizeof(values));
    Tensor y(DType::F32, {1, 4});

    gelu(compute, x.view(), y.view());

    EXPECT_EQ(y[0], 1e30f);
    EXPECT_EQ(y[1], 0);
    EXPECT_EQ(y[2], 200);
    EXPECT_EQ(y[3], 0);
  });
}

TEST(Gelu, AnElementDoesNotDependOnItsPlace) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      Tensor x = spread_values(dtype, {1, 200}, 5, 1);
      Tensor whole(dtype, {1, 200});
      gelu(compute, x.view(), whole.view());

      for (std::int64_t begin : {1, 3, 17, 150}) {
        for (std::int64_t count : {1, 2, 15, 33, 50}) {
          Tensor part(dtype, {1, count});
          gelu(compute, x.view().slice(1, begin, count), part.view());
          expect_same_bits(part.view(), whole.view().slice(1, begin, count));
        }
      }
    }
  });
}

// In units of kRound. Exact: the exponent -z² + P(t) carries z² + 6 and moves the tail by as much
// of itself, and the tail times z² stays below 0.2; the formula is off by 1.2e-7, or 2, of it, exp
// by 4, products by 3. Quick: as the tanh form with fewer steps. The result is x times this; the
// slope adds x times a density below 0.4, in units of 4 + x².
class GeluForms : public ::testing::TestWithParam<GeluForm> {};

TEST_P(GeluForms, AgreeWithTheReference) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (float spread : {1.0f, 30.0f}) {
        Tensor x = spread_values(dtype, {9, 65}, spread, 1);
        Tensor dy = Tensor::random(dtype, {9, 65}, 2);
        Tensor y(dtype, {9, 65});
        Tensor dx(dtype, {9, 65});
        Tensor expected(DType::F32, {9, 65});
        Tensor slopes(DType::F32, {9, 65});

        gelu(compute, x.view(), y.view(), GetParam());
        reference::gelu(x.view(), expected.view(), GetParam());
        gelu_backward(compute, x.view(), dy.view(), dx.view(), GetParam());
        reference::gelu_backward(x.view(), dy.view(), slopes.view(), GetParam());

        expect_close(y, expected, 16 * kRound * spread);
        expect_close(dx, slopes, 80 * kRound);
      }
    }
  });
}

TEST_P(GeluForms, HaveTheSlopeOfForward) {
  Tensor x = Tensor::random(DType::F32, {1, 50}, 1);
  Tensor dy = Tensor::random(DType::F32, {1, 50}, 2);
  Tensor y(DType::F32, {1, 50});
  Tensor dx(DType::F32, {1, 50});
  reference::gelu_backward(x.view(), dy.view(), dx.view(), GetParam());
  const auto loss = [&] {
    reference::gelu(x.view(), y.view(), GetParam());
    return dot(y, dy);
  };

  for (int i = 0; i < 50; ++i) {
    EXPECT_NEAR(dx[i], slope(x.view().as<float>()[i], loss), 50 * kRound * 1.5 * 64);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GeluForms, ::testing::Values(GeluForm::Exact, GeluForm::Quick));

TEST(Swiglu, AgreesWithTheReference) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t columns : kActivationColumns) {
        Tensor gate_up = spread_values(dtype, {9, 2 * columns}, 10, 1);
        Tensor y(dtype, {9, columns});
        Tensor expected(DType::F32, {9, columns});

        swiglu(compute, gate_up.view(), y.view());
        reference::swiglu(gate_up.view(), expected.view());

        // |silu| and |up| are at most 10; the sigmoid carries 9 units, the products 2.
        expect_close(y, expected, 11 * kRound * 100);
      }
    }
  });
}

TEST(Swiglu, BackwardAgreesWithTheReference) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t columns : kActivationColumns) {
        Tensor gate_up = spread_values(dtype, {9, 2 * columns}, 10, 1);
        Tensor dy = Tensor::random(dtype, {9, columns}, 2);
        Tensor dgate_up(dtype, {9, 2 * columns});
        Tensor expected(DType::F32, {9, 2 * columns});

        swiglu_backward(compute, gate_up.view(), dy.view(), dgate_up.view());
        reference::swiglu_backward(gate_up.view(), dy.view(), expected.view());

        // |dy up| ≤ 10 times a slope below 1.1, or |dy silu| ≤ 10; 16 roundings at most.
        expect_close(dgate_up, expected, 16 * kRound * 11);
      }
    }
  });
}

TEST(Swiglu, ReferenceBackwardIsTheSlopeOfForward) {
  Tensor gate_up = Tensor::random(DType::F32, {2, 20}, 1);
  Tensor dy = Tensor::random(DType::F32, {2, 10}, 2);
  Tensor y(DType::F32, {2, 10});
  Tensor dgate_up(DType::F32, {2, 20});
  reference::swiglu_backward(gate_up.view(), dy.view(), dgate_up.view());
  const auto loss = [&] {
    reference::swiglu(gate_up.view(), y.view());
    return dot(y, dy);
  };

  for (int i = 0; i < 40; ++i) {
    EXPECT_NEAR(dgate_up[i], slope(gate_up.view().as<float>()[i], loss), 20 * kRound * 1.5 * 64);
  }
}

TEST(Geglu, IsGeluTimesUp) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t columns : kActivationColumns) {
        Tensor gate_up = spread_values(dtype, {9, 2 * columns}, 10, 1);
        const View gate = gate_up.view().slice(1, 0, columns);
        fill(compute, 1, gate_up.view().slice(1, columns, columns));
        Tensor dy = Tensor::random(dtype, {9, columns}, 2);
        Tensor y(dtype, {9, columns}), expected = y, dx = y;
        Tensor dgate_up(dtype, {9, 2 * columns});

        geglu(compute, gate_up.view(), y.view());
        gelu(compute, gate, expected.view());
        expect_same_bits(y.view(), expected.view());

        geglu_backward(compute, gate_up.view(), dy.view(), dgate_up.view());
        gelu_backward(compute, gate, dy.view(), dx.view());
        Tensor dgate(dtype, {9, columns});
        copy(compute, dgate_up.view().slice(1, 0, columns), dgate.view());
        expect_same_bits(dgate.view(), dx.view());
      }
    }
  });
}

TEST(Geglu, AgreesWithTheReference) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t columns : kActivationColumns) {
        Tensor gate_up = spread_values(dtype, {9, 2 * columns}, 10, 1);
        Tensor dy = Tensor::random(dtype, {9, columns}, 2);
        Tensor y(dtype, {9, columns});
        Tensor dgate_up(dtype, {9, 2 * columns});
        Tensor expected(DType::F32, {9, columns});
        Tensor slopes(DType::F32, {9, 2 * columns});

        geglu(compute, gate_up.view(), y.view());
        reference::geglu(gate_up.view(), expected.view());
        geglu_backward(compute, gate_up.view(), dy.view(), dgate_up.view());
        reference::geglu_backward(gate_up.view(), dy.view(), slopes.view());

        // gelu as above, times an up of at most 10.
        expect_close(y, expected, kGeluError * 10 * 10);
        expect_close(dgate_up, slopes, 80 * kRound * 10);
      }
    }
  });
}

TEST(Geglu, ReferenceBackwardIsTheSlopeOfForward) {
  Tensor gate_up = Tensor::random(DType::F32, {2, 20}, 1);
  Tensor dy = Tensor::random(DType::F32, {2, 10}, 2);
  Tensor y(DType::F32, {2, 10});
  Tensor dgate_up(DType::F32, {2, 20});
  reference::geglu_backward(gate_up.view(), dy.view(), dgate_up.view());
  const auto loss = [&] {
    reference::geglu(gate_up.view(), y.view());
    return dot(y, dy);
  };

  for (int i = 0; i < 40; ++i) {
    EXPECT_NEAR(dgate_up[i], slope(gate_up.view().as<float>()[i], loss), 20 * kRound * 1.5 * 64);
  }
}

}  // namespace
}  // namespace cleave::ops
