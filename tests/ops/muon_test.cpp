#include "cleave/ops/muon.h"

#include <cmath>

#include "ops/compare.h"
#include "ops/every_target.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/reference/muon.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

constexpr MuonHyper kMuon{.lr = 0.1, .momentum = 0.95, .weight_decay = 0.1, .gradient_scale = 0.5};

struct MuonState {
  MuonState(std::int64_t rows, std::int64_t columns)
      : master(Tensor::random(DType::F32, {rows, columns}, 1)),
        momentum(DType::F32, {rows, columns}),
        gradient(DType::F32, {rows, columns}),
        copy(DType::BF16, {rows, columns}) {}

  MuonArgs args() {
    return {.master = master.view(),
            .momentum = momentum.view(),
            .gradient = gradient.view(),
            .copy = copy.view()};
  }

  Tensor master, momentum, gradient, copy;
};

// Each of the five steps multiplies what it is given by up to 3.4445, errors too: 485 in all. Their
// source is the rounding of sums of `side` terms below 1 in three products. Updates are scaled by
// lr · 0.2 · sqrt(longest side) < 0.25 here.
TEST(Muon, AgreesWithTheReferenceOverSteps) {
  on_every_target([](Compute& compute) {
    for (auto [rows, columns] : {std::pair{1, 1}, {8, 8}, {7, 33}, {65, 16}, {48, 144}}) {
      Scratch scratch(muon_scratch_bytes(compute, rows, columns));
      compute.set_scratch(scratch.bytes());
      MuonState actual(rows, columns);
      MuonState expected(rows, columns);
      for (int step = 0; step < 3; ++step) {
        actual.gradient = Tensor::random(DType::F32, {rows, columns}, 10 + step);
        expected.gradient = actual.gradient;
        muon(compute, actual.args(), kMuon);
        reference::muon(expected.args(), kMuon);
      }
      const double side = std::min(rows, columns);
      expect_close(actual.momentum, expected.momentum, 3 * 3 * kRound);
      expect_close(actual.master, expected.master, (3 * 2 + 3 * 0.25 * 485 * 3 * side) * kRound);
    }
  });
}

// With a master of zero and no decay the master becomes the update itself.
TEST(Muon, MakesAllSingularValuesNearlyOne) {
  Compute compute(1);
  const std::int64_t rows = 24;
  const std::int64_t columns = 40;
  Scratch scratch(muon_scratch_bytes(compute, rows, columns));
  compute.set_scratch(scratch.bytes());
  MuonState state(rows, columns);
  state.master = Tensor(DType::F32, {rows, columns});
  state.gradient = Tensor::random(DType::F32, {rows, columns}, 5);

  muon(compute, state.args(), {.lr = 1, .momentum = 0});

  const double size = 0.2 * std::sqrt(40.0);
  double trace = 0;
  for (std::int64_t i = 0; i < rows * columns; ++i)
    trace += std::pow(static_cast<double>(state.master[i]) / size, 2);
  // The sum of the squares of 24 singular values, each between 0.68 and 1.14.
  EXPECT_GT(trace, 24 * 0.68 * 0.68);
  EXPECT_LT(trace, 24 * 1.14 * 1.14);
}

}  // namespace
}  // namespace cleave::ops
