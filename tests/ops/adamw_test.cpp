#include "cleave/ops/adamw.h"

#include "ops/compare.h"
#include "ops/every_target.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/reference/adamw.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

struct State {
  explicit State(std::int64_t count)
      : master(Tensor::random(DType::F32, {count}, 1)),
        m(DType::F32, {count}),
        v(DType::F32, {count}),
        gradient(DType::F32, {count}),
        copy(DType::BF16, {count}) {}

  AdamwArgs args() {
    return {.master = master.view(),
            .m = m.view(),
            .v = v.view(),
            .gradient = gradient.view(),
            .copy = copy.view()};
  }

  Tensor master, m, v, gradient, copy;
};

AdamwHyper hyper_at(int step) {
  return {.lr = 0.01,
          .beta1 = 0.9,
          .beta2 = 0.95,
          .eps = 1e-8,
          .weight_decay = 0.1,
          .bias_correction1 = 1 - std::pow(0.9, step),
          .bias_correction2 = 1 - std::pow(0.95, step),
          .gradient_scale = 0.5};
}

TEST(Adamw, AgreesWithTheReferenceOverSteps) {
  on_every_target([](Compute& compute) {
    for (std::int64_t count : {1, 7, 63, 64, 65, 9000}) {
      State actual(count);
      State expected(count);
      for (int step = 1; step <= 5; ++step) {
        actual.gradient = Tensor::random(DType::F32, {count}, 10 + step);
        expected.gradient = actual.gradient;

        adamw(compute, actual.args(), hyper_at(step));
        reference::adamw(expected.args(), hyper_at(step));
      }
      // Per step: three roundings in m, four in v. The update is at most lr · 5, with fifteen
      // roundings of its own and of m and v; the master adds two of its own size.
      expect_close(actual.m, expected.m, 5 * 3 * kRound);
      expect_close(actual.v, expected.v, 5 * 4 * kRound);
      expect_close(actual.master, expected.master, 5 * (2 + 0.05 * 30) * kRound);
      expect_close(actual.copy, expected.master, 5 * (2 + 0.05 * 30) * kRound);
    }
  });
}

// torch.optim.AdamW, first step: m / sqrt(v) is the sign of the gradient, whatever its size.
TEST(Adamw, FirstStepMovesByTheLearningRate) {
  Compute compute(1);
  State state(3);
  const float master[] = {1, 1, 1};
  const float gradient[] = {1e-3f, -5, 0};
  std::memcpy(state.master.view().bytes(), master, sizeof(master));
  std::memcpy(state.gradient.view().bytes(), gradient, sizeof(gradient));

  adamw(compute, state.args(), hyper_at(1));

  EXPECT_NEAR(state.master[0], 0.999 - 0.01, 1e-6);
  EXPECT_NEAR(state.master[1], 0.999 + 0.01, 1e-6);
  EXPECT_NEAR(state.master[2], 0.999, 1e-6);
}

TEST(Adamw, LeavesTheMasterAloneWithoutACopy) {
  Compute compute(2);
  State with(10000);
  State without(10000);
  with.gradient = Tensor::random(DType::F32, {10000}, 3);
  without.gradient = with.gradient;
  AdamwArgs args = without.args();
  args.copy = {};

  adamw(compute, with.args(), hyper_at(1));
  adamw(compute, args, hyper_at(1));

  expect_same_bits(with.master.view(), without.master.view());
  expect_same_bits(with.m.view(), without.m.view());
  expect_same_bits(with.v.view(), without.v.view());
}

TEST(Adamw, AnElementDoesNotDependOnItsPlace) {
  on_every_target([](Compute& compute) {
    State whole(100);
    whole.gradient = Tensor::random(DType::F32, {100}, 3);
    State parts = whole;
    adamw(compute, whole.args(), hyper_at(1));

    for (auto [begin, count] : {std::pair{0, 1}, {1, 30}, {31, 69}}) {
      const AdamwArgs all = parts.args();
      adamw(compute,
            {.master = all.master.slice(0, begin, count),
             .m = all.m.slice(0, begin, count),
             .v = all.v.slice(0, begin, count),
             .gradient = all.gradient.slice(0, begin, count),
             .copy = all.copy.slice(0, begin, count)},
            hyper_at(1));
    }
    expect_same_bits(whole.master.view(), parts.master.view());
    expect_same_bits(whole.copy.view(), parts.copy.view());
  });
}

}  // namespace
}  // namespace cleave::ops
