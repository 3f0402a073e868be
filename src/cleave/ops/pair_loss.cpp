#include "cleave/ops/pair_loss.h"

#include <cmath>

#include "cleave/base/elementary.h"
#include "cleave/ops/device/pairs.h"
#include "cleave/ops/simd/rows.h"

namespace cleave::ops {
namespace {

/// log(1 + small), 0 ≤ small ≤ 1: what rounding 1 + small loses of it, the quotient makes good.
double log_one_plus(double small) {
  if (!(small > 0)) return small;
  const double one_plus = 1 + small;
  return one_plus == 1 ? small : natural_log(one_plus) * small / (one_plus - 1);
}

/// log(1 + exp(v)) without overflow.
double softplus(double v) {
  return (v < 0 ? 0 : v) + log_one_plus(exponential(-std::abs(v)));
}

double sigmoid(double v) {
  const double small = exponential(-std::abs(v));
  return v >= 0 ? 1 / (1 + small) : small / (1 + small);
}

void check_pairs(ConstView logits, const Pairing& pairing, ConstView of_rows) {
  CLEAVE_CHECK(logits.rank() == 2, "logits ", to_string(logits.shape()));
  check_view("pair logits", logits, DType::F32, logits.shape());
  check_view("pair losses", of_rows, DType::F32, {logits.size(0)});
  CLEAVE_CHECK(pairing.first >= 0 && pairing.first + logits.size(0) <= logits.size(1), "row 0 of ",
               logits.size(0), " is a pair with column ", pairing.first, " of ", logits.size(1));
}

}  // namespace

void pair_losses(Compute& compute, ConstView logits, const Pairing& pairing, View losses) {
  check_pairs(logits, pairing, losses);
  if (Accelerator* device = compute.accelerator())
    return device::pair_losses(*device, logits, pairing, losses);
  parallel_for(compute, logits.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* logit = row_of<float>(logits, row);
      double sum = 0;
      for (std::int64_t j = 0; j < logits.size(1); ++j) {
        const double v = static_cast<double>(logit[j]) + static_cast<double>(pairing.bias);
        sum += softplus(j == pairing.first + row ? -v : v);
      }
      losses.as<float>()[row] = static_cast<float>(sum);
    }
  });
}

void pair_losses_backward(Compute& compute, View logits, const Pairing& pairing, float scale,
                          View sums) {
  check_pairs(logits, pairing, sums);
  if (Accelerator* device = compute.accelerator())
    return device::pair_losses_backward(*device, logits, pairing, scale, sums);
  parallel_for(compute, logits.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* logit = row_of<float>(logits, row);
      double sum = 0;
      for (std::int64_t j = 0; j < logits.size(1); ++j) {
        const double v = static_cast<double>(logit[j]) + static_cast<double>(pairing.bias);
        const double slope = j == pairing.first + row ? -sigmoid(-v) : sigmoid(v);
        logit[j] = static_cast<float>(slope * static_cast<double>(scale));
        sum += slope * static_cast<double>(scale);
      }
      sums.as<float>()[row] = static_cast<float>(sum);
    }
  });
}

}  // namespace cleave::ops
