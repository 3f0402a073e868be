#include "cleave/ops/norm.h"

#include "ops/compare.h"
#include "ops/every_target.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/reference/norm.h"
#include "cleave/spec/kernel_scratch.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

constexpr std::int64_t kHiddenSizes[] = {1, 7, 63, 64, 65, 768};
constexpr std::int64_t kNormTokens = 67;  // three slices, the last short

/// Everything that a norm and its gradient touch.
struct NormProblem {
  NormProblem(DType dtype, std::int64_t hidden, std::int64_t tokens = kNormTokens)
      : x(Tensor::random(dtype, {tokens, hidden}, 1)),
        weight(Tensor::random(dtype, {hidden}, 2)),
        bias(Tensor::random(dtype, {hidden}, 3)),
        dy(Tensor::random(dtype, {tokens, hidden}, 4)),
        add(Tensor::random(dtype, {tokens, hidden}, 5)),
        scratch(layernorm_backward_scratch_bytes(tokens, hidden)) {}

  Tensor x, weight, bias, dy, add;
  Scratch scratch;
};

struct NormResults {
  NormResults(DType dtype, std::int64_t hidden, std::int64_t tokens = kNormTokens)
      : y(dtype, {tokens, hidden}),
        mean(DType::F32, {tokens}),
        rstd(DType::F32, {tokens}),
        dx(dtype, {tokens, hidden}),
        dweight(DType::F32, {hidden}),
        dbias(DType::F32, {hidden}) {}

  Tensor y, mean, rstd, dx, dweight, dbias;
};

LayernormArgs forward_of(NormProblem& p, NormResults& r) {
  return {.x = p.x.view(),
          .weight = p.weight.view(),
          .bias = p.bias.view(),
          .y = r.y.view(),
          .mean = r.mean.view(),
          .rstd = r.rstd.view()};
}

LayernormBackwardArgs backward_of(NormProblem& p, NormResults& r) {
  return {.dy = p.dy.view(),
          .x = p.x.view(),
          .weight = p.weight.view(),
          .mean = r.mean.view(),
          .rstd = r.rstd.view(),
          .add = p.add.view(),
          .dx = r.dx.view(),
          .dweight = r.dweight.view(),
          .dbias = r.dbias.view()};
}

RmsnormArgs rms_forward_of(NormProblem& p, NormResults& r, NormWeight form = NormWeight::Plain) {
  return {.x = p.x.view(),
          .weight = p.weight.view(),
          .form = form,
          .y = r.y.view(),
          .rstd = r.rstd.view()};
}

RmsnormBackwardArgs rms_backward_of(NormProblem& p, NormResults& r,
                                    NormWeight form = NormWeight::Plain) {
  return {.dy = p.dy.view(),
          .x = p.x.view(),
          .weight = p.weight.view(),
          .form = form,
          .rstd = r.rstd.view(),
          .add = p.add.view(),
          .dx = r.dx.view(),
          .dweight = r.dweight.view()};
}

void set(Tensor& vector, std::int64_t i, float value) {
  if (vector.view().dtype() == DType::BF16) {
    vector.view().as<BFloat16>()[i] = to_bf16(value);
  } else {
    vector.view().as<float>()[i] = value;
  }
}

/// The largest |x - mean| rstd, and rstd, that the data has.
double largest_xhat(NormResults& r) {
  double rstd = 0;
  for (std::int64_t t = 0; t < r.rstd.view().size(0); ++t) rstd = std::max<double>(rstd, r.rstd[t]);
  return 2 * rstd;
}

// A sum of h numbers in at least one lane errs by h units of its largest partial sum, a mean so by
// h units of the largest number; rstd likewise, relative. y has |xhat| + 1 times both.
double forward_error(std::int64_t hidden, NormResults& r) {
  return static_cast<double>(hidden + 8) * kRound * (largest_xhat(r) + 1);
}

// dx = rstd (g - mean(g) - xhat mean(g xhat)): three terms, the last of up to xhat² rstd, each with
// the error of its sum.
double backward_error(std::int64_t hidden, NormResults& r) {
  const double xhat = largest_xhat(r);
  return static_cast<double>(hidden + 8) * kRound * xhat * (2 + xhat * xhat);
}

// Sums over tokens of |dy xhat| ≤ xhat.
double weight_error(NormResults& r) {
  return kNormTokens * static_cast<double>(kNormTokens + 4) * kRound * (largest_xhat(r) + 1);
}

TEST(Layernorm, AgreesWithTheReference) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t hidden : kHiddenSizes) {
        NormProblem p(dtype, hidden);
        NormResults r(dtype, hidden);
        NormResults expected(DType::F32, hidden);

        layernorm(compute, forward_of(p, r));
        reference::layernorm(forward_of(p, expected));

        expect_close(r.y, expected.y, forward_error(hidden, expected));
        expect_close(r.mean, expected.mean, static_cast<double>(hidden) * kRound);
        expect_close(r.rstd, expected.rstd, forward_error(hidden, expected));
      }
    }
  });
}

TEST(Layernorm, BackwardAgreesWithTheReference) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t hidden : kHiddenSizes) {
        NormProblem p(dtype, hidden);
        NormResults r(dtype, hidden);
        NormResults expected(DType::F32, hidden);
        compute.set_scratch(p.scratch.bytes());
        reference::layernorm(forward_of(p, expected));
        r.mean = expected.mean;
        r.rstd = expected.rstd;

        layernorm_backward(compute, backward_of(p, r));
        reference::layernorm_backward(backward_of(p, expected));

        expect_close(r.dx, expected.dx, backward_error(hidden, expected));
        expect_close(r.dweight, expected.dweight, weight_error(expected));
        expect_close(r.dbias, expected.dbias, weight_error(expected));
      }
    }
  });
}

TEST(Rmsnorm, AgreesWithTheReference) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t hidden : kHiddenSizes) {
        NormProblem p(dtype, hidden);
        NormResults r(dtype, hidden);
        NormResults expected(DType::F32, hidden);
        compute.set_scratch(p.scratch.bytes());

        rmsnorm(compute, rms_forward_of(p, r));
        reference::rmsnorm(rms_forward_of(p, expected));
        expect_close(r.y, expected.y, forward_error(hidden, expected));
        expect_close(r.rstd, expected.rstd, forward_error(hidden, expected));

        r.rstd = expected.rstd;
        rmsnorm_backward(compute, rms_backward_of(p, r));
        reference::rmsnorm_backward(rms_backward_of(p, expected));
        expect_close(r.dx, expected.dx, backward_error(hidden, expected));
        expect_close(r.dweight, expected.dweight, weight_error(expected));
      }
    }
  });
}

// With weights that are exact beside 1, one plus the weight is a weight like any other.
TEST(Rmsnorm, OnePlusTheWeightIsAWeight) {
  on_every_target([](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t hidden : kHiddenSizes) {
        NormProblem p(dtype, hidden), shifted(dtype, hidden);
        Tensor steps = Tensor::random(DType::F32, {hidden}, 9);
        for (std::int64_t i = 0; i < hidden; ++i) {
          const auto step = static_cast<float>(std::lround(steps[i] * 32));
          set(shifted.weight, i, step / 64);
          set(p.weight, i, 1 + step / 64);
        }
        NormResults r(dtype, hidden), expected(dtype, hidden);
        compute.set_scratch(p.scratch.bytes());

        rmsnorm(compute, rms_forward_of(shifted, r, NormWeight::OnePlus));
        rmsnorm(compute, rms_forward_of(p, expected));
        expect_same_bits(r.y.view(), expected.y.view());
        rmsnorm_backward(compute, rms_backward_of(shifted, r, NormWeight::OnePlus));
        rmsnorm_backward(compute, rms_backward_of(p, expected));
        expect_same_bits(r.dx.view(), expected.dx.view());
        expect_same_bits(r.dweight.view(), expected.dweight.view());
      }
    }
  });
}

/// dx, dweight and dbias of the reference against the slopes of Σ dy y + add x.
template <class Forward>
void expect_slopes(NormProblem& p, NormResults& r, bool has_bias, const Forward& forward) {
  const auto loss = [&] {
    forward();
    return dot(r.y, p.dy) + dot(p.x, p.add);
  };
  // 21 outputs of about 2, each rounded, through a stencil of 1.5 / h; h⁴ is below that.
  const double error = 42 * kRound * 1.5 * 64 * 4;
  for (int i = 0; i < 21; ++i) {
    EXPECT_NEAR(r.dx[i], slope(p.x.view().as<float>()[i], loss), error) << i;
  }
  for (int i = 0; i < 7; ++i) {
    EXPECT_NEAR(r.dweight[i], slope(p.weight.view().as<float>()[i], loss), error) << i;
    if (!has_bias) continue;
    EXPECT_NEAR(r.dbias[i], slope(p.bias.view().as<float>()[i], loss), error) << i;
  }
}

TEST(Layernorm, ReferenceBackwardIsTheSlopeOfForward) {
  NormProblem p(DType::F32, 7, 3);
  NormResults r(DType::F32, 7, 3);
  reference::layernorm(forward_of(p, r));
  reference::layernorm_backward(backward_of(p, r));

  expect_slopes(p, r, true, [&] { reference::layernorm(forward_of(p, r)); });
}

TEST(Rmsnorm, ReferenceBackwardIsTheSlopeOfForward) {
  NormProblem p(DType::F32, 7, 3);
  NormResults r(DType::F32, 7, 3);
  reference::rmsnorm(rms_forward_of(p, r));
  reference::rmsnorm_backward(rms_backward_of(p, r));

  expect_slopes(p, r, false, [&] { reference::rmsnorm(rms_forward_of(p, r)); });
}

TEST(Layernorm, ThreadsDoNotChangeABit) {
  NormProblem p(DType::BF16, 100, 1000);
  NormResults one(DType::BF16, 100, 1000);
  NormResults two(DType::BF16, 100, 1000);
  for (auto [threads, r] : {std::pair{1, &one}, {2, &two}}) {
    Compute compute(threads);
    compute.set_scratch(p.scratch.bytes());
    layernorm(compute, forward_of(p, *r));
    layernorm_backward(compute, backward_of(p, *r));
  }

  expect_same_bits(one.y.view(), two.y.view());
  expect_same_bits(one.dx.view(), two.dx.view());
  expect_same_bits(one.dweight.view(), two.dweight.view());
  expect_same_bits(one.dbias.view(), two.dbias.view());
}

TEST(Layernorm, ARowDoesNotDependOnItsPlace) {
  Compute compute(1);
  NormProblem p(DType::F32, 65);
  NormResults all(DType::F32, 65);
  layernorm(compute, forward_of(p, all));

  Tensor alone(DType::F32, {1, 65});
  for (std::int64_t row : {1, 13, 66}) {
    layernorm(compute, {.x = p.x.view().slice(0, row, 1),
                        .weight = p.weight.view(),
                        .bias = p.bias.view(),
                        .y = alone.view()});
    expect_same_bits(alone.view(), all.y.view().slice(0, row, 1));
  }
}

TEST(Layernorm, BackwardRefusesTooLittleScratch) {
  Compute compute(1);
  NormProblem p(DType::F32, 64);
  NormResults r(DType::F32, 64);
  compute.set_scratch(p.scratch.bytes().first(64));

  EXPECT_THROW(layernorm_backward(compute, backward_of(p, r)), InternalError);
}

}  // namespace
}  // namespace cleave::ops
