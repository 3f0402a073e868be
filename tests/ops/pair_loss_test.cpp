#include "cleave/ops/pair_loss.h"

#include "ops/compare.h"
#include "ops/every_target.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/reference/pair_loss.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

constexpr std::int64_t kPairRows = 7;
constexpr std::int64_t kPairColumns = 21;
constexpr Pairing kPairing{.first = 5, .bias = -0.75f};

Tensor some_logits() {
  Tensor logits = Tensor::random(DType::F32, {kPairRows, kPairColumns}, 1);
  for (std::int64_t i = 0; i < logits.view().elements(); ++i) logits.view().as<float>()[i] *= 8;
  return logits;
}

TEST(PairLoss, AgreesWithTheReference) {
  on_every_target([&](Compute& compute) {
    Tensor logits = some_logits();
    Tensor expected = some_logits();
    Tensor losses(DType::F32, {kPairRows});
    Tensor expected_losses(DType::F32, {kPairRows});
    Tensor sums(DType::F32, {kPairRows});
    Tensor expected_sums(DType::F32, {kPairRows});

    pair_losses(compute, logits.view(), kPairing, losses.view());
    reference::pair_losses(expected.view(), kPairing, expected_losses.view());
    pair_losses_backward(compute, logits.view(), kPairing, 0.25f, sums.view());
    reference::pair_losses_backward(expected.view(), kPairing, 0.25f, expected_sums.view());

    // The reference rounds logit + bias to f32: up to 9 · kRound on each of 21 terms.
    expect_close(losses, expected_losses, 21 * 10 * kRound + 256 * kRound);
    expect_close(logits, expected, 10 * kRound);
    expect_close(sums, expected_sums, 21 * 10 * kRound);
  });
}

TEST(PairLoss, HasItsSlopeAsGradient) {
  Tensor logits = some_logits();
  Tensor gradient = some_logits();
  Tensor losses(DType::F32, {kPairRows});
  Tensor sums(DType::F32, {kPairRows});
  Compute compute(1);
  pair_losses_backward(compute, gradient.view(), kPairing, 1, sums.view());

  for (std::int64_t i = 0; i < gradient.view().elements(); i += 5) {
    const double expected = slope(logits.view().as<float>()[i], [&] {
      pair_losses(compute, logits.view(), kPairing, losses.view());
      return double{losses[i / kPairColumns]};
    });
    // Losses of up to 100 are rounded to f32: 1.5 / h · 100 · kRound.
    EXPECT_NEAR(gradient[i], expected, 1.5 * 64 * 100 * kRound + 1e-8);
  }
}

TEST(PairLoss, IsFiniteForLogitsOfAnySize) {
  Tensor logits = some_logits();
  for (std::int64_t i = 0; i < logits.view().elements(); ++i)
    logits.view().as<float>()[i] = i % 2 == 0 ? 1e30f : -1e30f;
  Tensor losses(DType::F32, {kPairRows});
  Tensor sums(DType::F32, {kPairRows});
  Compute compute(1);

  pair_losses(compute, logits.view(), kPairing, losses.view());
  pair_losses_backward(compute, logits.view(), kPairing, 1, sums.view());

  for (std::int64_t i = 0; i < kPairRows; ++i) EXPECT_TRUE(std::isfinite(losses[i] + sums[i]));
}

}  // namespace
}  // namespace cleave::ops
