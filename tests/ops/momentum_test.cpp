#include "cleave/ops/momentum.h"

#include <limits>

#include "ops/compare.h"
#include "ops/every_target.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/reference/momentum.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

struct MomentumState {
  explicit MomentumState(std::int64_t count)
      : master(Tensor::random(DType::F32, {count}, 1)),
        momentum(DType::F32, {count}),
        gradient(DType::F32, {count}),
        copy(DType::BF16, {count}) {}

  MomentumArgs args() {
    return {.master = master.view(),
            .momentum = momentum.view(),
            .gradient = gradient.view(),
            .copy = copy.view()};
  }

  void expect_same(MomentumState& other) {
    expect_same_bits(master.view(), other.master.view());
    expect_same_bits(momentum.view(), other.momentum.view());
    expect_same_bits(copy.view(), other.copy.view());
  }

  Tensor master, momentum, gradient, copy;
};

constexpr SgdHyper kSgd{.lr = 0.01, .momentum = 0.9, .weight_decay = 0.1, .gradient_scale = 0.3};
constexpr LionHyper kLion{
    .lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1, .gradient_scale = 0.3};

template <class Update, class Reference>
void expect_bits_of_reference(const Update& update, const Reference& reference) {
  on_exact_targets([&](Compute& compute) {
    for (std::int64_t count : {1, 7, 63, 64, 65, 9000}) {
      MomentumState actual(count);
      MomentumState expected(count);
      for (int step = 0; step < 3; ++step) {
        actual.gradient = Tensor::random(DType::F32, {count}, 10 + step);
        expected.gradient = actual.gradient;
        update(compute, actual.args());
        reference(expected.args());
      }
      actual.expect_same(expected);
    }
  });
}

TEST(Sgd, GivesTheBitsOfTheReference) {
  expect_bits_of_reference([](Compute& c, const MomentumArgs& args) { sgd(c, args, kSgd); },
                           [](const MomentumArgs& args) { reference::sgd(args, kSgd); });
}

TEST(Sgd, WithoutMomentumKeepsNothing) {
  const auto without = [](MomentumArgs args) {
    args.momentum = {};
    return args;
  };
  expect_bits_of_reference(
      [&](Compute& c, const MomentumArgs& args) { sgd(c, without(args), kSgd); },
      [&](const MomentumArgs& args) { reference::sgd(without(args), kSgd); });
}

TEST(Lion, GivesTheBitsOfTheReference) {
  expect_bits_of_reference([](Compute& c, const MomentumArgs& args) { lion(c, args, kLion); },
                           [](const MomentumArgs& args) { reference::lion(args, kLion); });
}

// Whatever the size of a gradient; where there is none, decay alone moves the weight.
TEST(Lion, MovesByTheLearningRateAgainstTheSign) {
  Compute compute(1);
  MomentumState state(4);
  const float master[] = {1, 1, 1, 1};
  const float gradient[] = {1e-20f, -5, 0, -0.0f};
  std::memcpy(state.master.view().bytes(), master, sizeof(master));
  std::memcpy(state.gradient.view().bytes(), gradient, sizeof(gradient));

  lion(compute, state.args(), kLion);

  EXPECT_NEAR(state.master[0], 0.999 - 0.01, 1e-7);
  EXPECT_NEAR(state.master[1], 0.999 + 0.01, 1e-7);
  EXPECT_NEAR(state.master[2], 0.999, 1e-7);
  EXPECT_NEAR(state.master[3], 0.999, 1e-7);
}

TEST(Momentum, AnElementDoesNotDependOnItsPlace) {
  on_every_target([](Compute& compute) {
    MomentumState whole(100);
    whole.gradient = Tensor::random(DType::F32, {100}, 3);
    MomentumState parts = whole;
    sgd(compute, whole.args(), kSgd);
    lion(compute, whole.args(), kLion);

    for (auto [begin, count] : {std::pair{0, 1}, {1, 30}, {31, 69}}) {
      const MomentumArgs all = parts.args();
      const MomentumArgs part{.master = all.master.slice(0, begin, count),
                              .momentum = all.momentum.slice(0, begin, count),
                              .gradient = all.gradient.slice(0, begin, count),
                              .copy = all.copy.slice(0, begin, count)};
      sgd(compute, part, kSgd);
      lion(compute, part, kLion);
    }
    whole.expect_same(parts);
  });
}

}  // namespace
}  // namespace cleave::ops
