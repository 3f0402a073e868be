#include "cleave/ops/cross_entropy.h"

#include "ops/compare.h"
#include "ops/every_target.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/elementwise.h"
#include "cleave/ops/reference/cross_entropy.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

constexpr std::int64_t kTargets = 5;
constexpr std::int64_t kVocabularies[] = {1, 7, 63, 64, 65, 768, 50257};

/// Logits in [-8, 8) in rows padded by three, and targets of which the second is ignored.
struct Targets {
  Targets(DType dtype, std::int64_t vocab)
      : stored(Tensor::random(dtype, {kTargets, vocab + 3}, 1)),
        targets(DType::I32, {kTargets}),
        losses(DType::F32, {kTargets}),
        lse(DType::F32, {kTargets}),
        vocab(vocab) {
    Compute compute(1);
    scale(compute, stored.view(), 8, stored.view());
    auto* target = targets.view().as<std::int32_t>();
    for (std::int64_t t = 0; t < kTargets; ++t) {
      target[t] = t == 1 ? -1 : static_cast<std::int32_t>(t * 7919 % vocab);
    }
  }
  View logits() { return stored.view().slice(1, 0, vocab); }

  Tensor stored, targets, losses, lse;
  std::int64_t vocab;
};

// The sum has positive terms, each with the error of exp (4) and of its argument (16 units at most,
// as |x - max| < 16), summed in at least four partial sums. The logarithm turns that relative error
// into an absolute one; lse and loss are rounded at a size below 32.
double loss_error(std::int64_t vocab) {
  return (20 + static_cast<double>(vocab) / 4 + 32) * kRound;
}

TEST(CrossEntropy, AgreesWithTheReference) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t vocab : kVocabularies) {
        Targets actual(dtype, vocab);
        Targets expected(dtype, vocab);

        cross_entropy(compute, actual.logits(), actual.targets.view(), actual.losses.view(),
                      actual.lse.view());
        reference::cross_entropy(expected.logits(), expected.targets.view(), expected.losses.view(),
                                 expected.lse.view());

        expect_close(actual.losses, expected.losses, loss_error(vocab));
        expect_close(actual.lse, expected.lse, loss_error(vocab));
        EXPECT_EQ(actual.losses[1], 0);
      }
    }
  });
}

TEST(CrossEntropy, BackwardAgreesWithTheReferenceAndSparesThePadding) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t vocab : kVocabularies) {
        Targets actual(dtype, vocab);
        Targets expected(dtype, vocab);
        expected.stored = Tensor(DType::F32, {kTargets, vocab + 3});
        copy(compute, actual.stored.view(), expected.stored.view());
        reference::cross_entropy(actual.logits(), actual.targets.view(), actual.losses.view(),
                                 actual.lse.view());

        cross_entropy_backward(compute, {actual.logits(), 0}, actual.targets.view(),
                               actual.lse.view(), 0.25f);
        reference::cross_entropy_backward(expected.logits(), actual.targets.view(),
                                          actual.lse.view(), 0.25f);

        // A probability errs by 4 units of exp and 32 of its argument, at most.
        expect_close(actual.stored, expected.stored, 0.25 * 40 * kRound);
      }
    }
  });
}

TEST(CrossEntropy, ReferenceBackwardIsTheSlopeOfForward) {
  Targets p(DType::F32, 7);
  const auto loss = [&] {
    reference::cross_entropy(p.logits(), p.targets.view(), p.losses.view(), p.lse.view());
    double sum = 0;
    for (std::int64_t t = 0; t < kTargets; ++t) sum += p.losses[t];
    return sum;
  };
  loss();
  Targets gradient(DType::F32, 7);
  reference::cross_entropy_backward(gradient.logits(), p.targets.view(), p.lse.view(), 1);

  for (std::int64_t t = 0; t < kTargets; ++t) {
    for (std::int64_t i = 0; i < 7; ++i) {
      const std::int64_t at = t * 10 + i;
      // Five losses of at most 16, rounded, through a stencil of 1.5 / h.
      EXPECT_NEAR(gradient.stored[at], slope(p.stored.view().as<float>()[at], loss),
                  5 * 16 * kRound * 1.5 * 64);
    }
  }
}

TEST(CrossEntropy, OneBlockGivesTheBitsOfTheWhole) {
  on_every_target([](Compute& compute) {
    Targets p(DType::BF16, 1000);
    Tensor max(DType::F32, {kTargets}), sum(DType::F32, {kTargets}), target(DType::F32, {kTargets});
    Tensor losses(DType::F32, {kTargets}), lse(DType::F32, {kTargets});
    const SoftmaxState state = {max.view(), sum.view(), target.view()};

    cross_entropy(compute, p.logits(), p.targets.view(), p.losses.view(), p.lse.view());
    cross_entropy_partial(compute, {p.logits(), 0}, p.targets.view(), state, Write::Overwrite);
    cross_entropy_finish(compute, state, p.targets.view(), losses.view(), lse.view());

    expect_same_bits(losses.view(), p.losses.view());
    expect_same_bits(lse.view(), p.lse.view());
  });
}

TEST(CrossEntropy, BlocksOfTheVocabularyAddUp) {
  on_every_target([](Compute& compute) {
    constexpr std::int64_t kBlock = 300;
    Targets p(DType::F32, 1000);
    Targets expected(DType::F32, 1000);
    Tensor max(DType::F32, {kTargets}), sum(DType::F32, {kTargets}), target(DType::F32, {kTargets});
    const SoftmaxState state = {max.view(), sum.view(), target.view()};
    const auto for_blocks = [&](auto body) {
      for (std::int64_t first = 0; first < p.vocab; first += kBlock) {
        body(VocabBlock{p.logits().slice(1, first, std::min(kBlock, p.vocab - first)), first});
      }
    };

    for_blocks([&](VocabBlock block) {
      cross_entropy_partial(compute, block, p.targets.view(), state,
                            block.first == 0 ? Write::Overwrite : Write::Accumulate);
    });
    cross_entropy_finish(compute, state, p.targets.view(), p.losses.view(), p.lse.view());
    for_blocks([&](VocabBlock block) {
      cross_entropy_backward(compute, block, p.targets.view(), p.lse.view(), 1);
    });
    reference::cross_entropy(expected.logits(), expected.targets.view(), expected.losses.view(),
                             expected.lse.view());
    reference::cross_entropy_backward(expected.logits(), expected.targets.view(),
                                      expected.lse.view(), 1);

    // Each further block rescales the sum: exp and a product, six units.
    expect_close(p.losses, expected.losses, loss_error(1000) + 3 * 6 * kRound);
    expect_close(p.stored, expected.stored, loss_error(1000) + 60 * kRound);
  });
}

// With lse 0, scale 1 and the target elsewhere, the gradient is exp of the logit.
TEST(CrossEntropy, ItsExpIsWithinTwoUlp) {
  on_every_target([](Compute& compute) {
    constexpr std::int64_t kCount = 200000;
    Tensor x(DType::F32, {1, kCount});
    for (std::int64_t i = 0; i < kCount; ++i) {
      x.view().as<float>()[i] = -87.3f + 175.5f * static_cast<float>(i) / kCount;
    }
    Tensor y = x;
    Tensor target(DType::I32, {1});
    Tensor lse(DType::F32, {1});

    cross_entropy_backward(compute, {y.view(), 1}, target.view(), lse.view(), 1);

    for (std::int64_t i = 0; i < kCount; ++i) {
      const double exact = std::exp(static_cast<double>(x[i]));
      const auto nearest = static_cast<float>(exact);
      const double ulp = static_cast<double>(std::nextafter(nearest, INFINITY)) - nearest;
      ASSERT_LE(std::abs(y[i] - exact), 2 * ulp) << x[i];
    }
  });
}

TEST(CrossEntropy, HidesNoNan) {
  on_every_target([](Compute& compute) {
    for (std::int64_t place : {0, 5, 40, 99}) {
      Targets p(DType::F32, 100);
      p.logits().as<float>()[place] = NAN;

      cross_entropy(compute, p.logits(), p.targets.view(), p.losses.view(), p.lse.view());

      EXPECT_TRUE(std::isnan(p.losses[0])) << place;
      EXPECT_FALSE(std::isnan(p.losses[2])) << place;
    }
  });
}

TEST(CrossEntropy, TakesMaskedLogits) {
  on_every_target([](Compute& compute) {
    Targets p(DType::F32, 10);
    for (std::int64_t i = 1; i < 10; ++i) p.logits().as<float>()[i] = -INFINITY;

    cross_entropy(compute, p.logits(), p.targets.view(), p.losses.view(), p.lse.view());

    EXPECT_EQ(p.losses[0], 0);
    EXPECT_EQ(p.lse[0], p.stored[0]);
  });
}

TEST(Hits, AreThoseOfTheReference) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      Tensor logits = Tensor::random(dtype, {40, 5}, 1);
      Tensor targets(DType::I32, {40});
      for (int t = 0; t < 40; ++t) targets.view().as<std::int32_t>()[t] = t % 6 - 1;
      Tensor found(DType::F32, {40});
      Tensor expected(DType::F32, {40});

      hits(compute, logits.view(), targets.view(), found.view());
      reference::hits(logits.view(), targets.view(), expected.view());

      expect_same_bits(found.view(), expected.view());
    }
  });
}

TEST(Hits, TakeTheFirstOfEqualLogits) {
  Compute compute(1);
  Tensor logits(DType::F32, {2, 3});
  const float values[] = {1, 4, 4, 2, 2, 0};
  std::memcpy(logits.view().bytes(), values, sizeof(values));
  Tensor targets(DType::I32, {2});
  targets.view().as<std::int32_t>()[0] = 1;
  targets.view().as<std::int32_t>()[1] = 1;
  Tensor found(DType::F32, {2});

  hits(compute, logits.view(), targets.view(), found.view());

  EXPECT_EQ(found[0], 1);
  EXPECT_EQ(found[1], 0);
}

}  // namespace
}  // namespace cleave::ops
