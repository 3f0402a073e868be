#include "cleave/layers/pair_loss.h"

#include <algorithm>

#include "cleave/base/elementary.h"
#include "cleave/ops/cross_entropy.h"
#include "cleave/ops/elementwise.h"
#include "cleave/ops/matmul.h"
#include "cleave/ops/pair_loss.h"
#include "cleave/ops/scratch_claim.h"
#include "cleave/tensor/bf16.h"

namespace cleave {
namespace {

// Indices into what the specs declare (spec/contrastive_layers.cpp).
constexpr int kFeatures = 0;  // of what is collected
constexpr int kLse = 1;
constexpr int kLosses = 2;
constexpr int kScale = 0;  // of the parameters, and of what I keeps for them
constexpr int kBias = 1;
constexpr int kNumbers = 0;  // of the constants

/// Room for logits, and for one number of each row.
struct PairRoom {
  PairRoom(ops::Compute& compute, std::int64_t rows, std::int64_t samples)
      : claim(compute,
              aligned(rows * samples * size_of(DType::F32)) + aligned(rows * size_of(DType::F32))),
        logits(claim.data(), DType::F32, {rows, samples}),
        turned(claim.data(), DType::F32, {samples, rows}),
        numbers(claim.data() + aligned(logits.byte_count()), DType::F32, {rows}) {}

  ops::ScratchClaim claim;
  View logits;
  View turned;  ///< the same memory
  View numbers;
};

View row_of_two(View two, std::int64_t row) {
  return View(two.slice(0, row, 1).bytes(), two.dtype(), {two.size(1)});
}

double sum_of(Memory& memory, ConstView numbers) {
  double sum = 0;
  read_on_host(memory, numbers, [&](ConstView host) {
    for (std::int64_t i = 0; i < host.elements(); ++i)
      sum += static_cast<double>(host.as<float>()[i]);
  });
  return sum;
}

}  // namespace

std::int64_t PairLoss::scratch_bytes(ops::Compute& compute) const {
  return spec().scratch + product_scratch_bytes(compute);
}

View PairLoss::of(View rows, Side side) {
  const std::int64_t features = rows.size(1) / 2;
  return rows.slice(1, side == Side::Image ? 0 : features, features);
}

View PairLoss::own_rows(const LayerCall& call) {
  return call.collected[kFeatures].slice(0, call.first_row,
                                         call.dx ? call.dx.size(0) : call.y.size(0));
}

float PairLoss::number(int index) const {
  float value = 0;
  read_on_host(memory(), parameter(index).value, [&](ConstView host) {
    value = host.dtype() == DType::F32 ? host.as<float>()[0] : to_float(host.as<BFloat16>()[0]);
  });
  return value;
}

float PairLoss::factor() const {
  // Infinite already as an f32.
  constexpr double kMost = 709;
  return static_cast<float>(exponential(std::min(static_cast<double>(number(kScale)), kMost)));
}

void PairLoss::keep_number(View to, double value) const {
  write_on_host(memory(), to, [&](View host) { host.as<float>()[0] = static_cast<float>(value); });
}

void PairLoss::logits(ops::Compute& compute, View own, View all, View out) const {
  ops::matmul(compute, own, ConstView(all).transposed(), out);
  ops::scale(compute, out, factor(), out);
}

void PairLoss::keep_scale_gradient(const LayerCall& call) const {
  const std::int64_t width = call.dx.size(1);
  double sum = 0;
  read_on_host(memory(), own_rows(call), [&](ConstView x) {
    read_on_host(memory(), call.dx, [&](ConstView dx) {
      for (std::int64_t row = 0; row < dx.size(0); ++row) {
        for (std::int64_t i = row * width; i < row * width + width / 2; ++i)
          sum += static_cast<double>(x.as<float>()[i]) * static_cast<double>(dx.as<float>()[i]);
      }
    });
  });
  keep_number(call.kept_by_input[kScale], sum);
}

void PairLoss::backward_weight(ops::Compute& compute, const LayerCall& call) {
  for (int index = 0; index < std::ssize(spec().parameters); ++index) {
    if (is_trained(index))
      ops::write(compute, call.kept_by_input[index], gradient(index, call), call.gradient);
  }
}

void ContrastiveLoss::fill_constants() {
  write_on_host(memory(), constant(kNumbers), [&](View host) {
    for (std::int64_t i = 0; i < host.elements(); ++i)
      host.as<std::int32_t>()[i] = static_cast<std::int32_t>(i);
  });
}

void ContrastiveLoss::begin_step(ops::Compute& compute, const LayerCall& call) {
  const PairRoom room(compute, rows(), samples());
  const View features = call.collected[kFeatures];
  for (std::int64_t first = 0; first < samples(); first += rows()) {
    const View losses = call.collected[kLosses].slice(0, first, rows());
    for (const Side side : {Side::Image, Side::Text}) {
      logits(compute, of(features.slice(0, first, rows()), side), of(features, other(side)),
             room.logits);
      const View lse = row_of_two(call.collected[kLse], side == Side::Image ? 0 : 1);
      ops::cross_entropy(compute, room.logits, constant(kNumbers).slice(0, first, rows()),
                         side == Side::Image ? losses : room.numbers, lse.slice(0, first, rows()));
    }
    ops::weighted_sum(compute, {losses, 0.5f}, {room.numbers, 0.5f}, losses);
  }
}

void ContrastiveLoss::forward(ops::Compute& compute, const LayerCall& call) {
  ops::copy(compute, call.collected[kLosses].slice(0, call.first_row, rows()), call.y);
}

/// What a row of one side gets from finding its pair, and from being found or not by every row of
/// the other side.
void ContrastiveLoss::gradient_of(Side side, ops::Compute& compute, const LayerCall& call) {
  const PairRoom room(compute, rows(), samples());
  const View own = of(own_rows(call), side);
  const View all = of(call.collected[kFeatures], other(side));
  const View lse = call.collected[kLse];
  const View finding = row_of_two(lse, side == Side::Image ? 0 : 1);
  const View found = row_of_two(lse, side == Side::Image ? 1 : 0);
  const ConstView numbers = constant(kNumbers);
  const float scale = call.loss_scale * 0.5f * factor();

  logits(compute, own, all, room.logits);
  ops::cross_entropy_backward(compute, {room.logits}, numbers.slice(0, call.first_row, rows()),
                              finding.slice(0, call.first_row, rows()), scale);
  ops::matmul(compute, room.logits, all, of(call.dx, side));

  logits(compute, all, own, room.turned);
  ops::cross_entropy_backward(compute, {room.turned, call.first_row}, numbers, found, scale);
  ops::matmul(compute, ConstView(room.turned).transposed(), all, of(call.dx, side),
              {.write = Write::Accumulate});
}

void ContrastiveLoss::backward_input(ops::Compute& compute, const LayerCall& call) {
  gradient_of(Side::Image, compute, call);
  gradient_of(Side::Text, compute, call);
  keep_scale_gradient(call);
}

void SigmoidLoss::forward(ops::Compute& compute, const LayerCall& call) {
  const PairRoom room(compute, rows(), samples());
  logits(compute, of(own_rows(call), Side::Image), of(call.collected[kFeatures], Side::Text),
         room.logits);
  ops::pair_losses(compute, room.logits, {call.first_row, number(kBias)}, call.y);
}

void SigmoidLoss::backward_input(ops::Compute& compute, const LayerCall& call) {
  const PairRoom room(compute, rows(), samples());
  for (const Side side : {Side::Image, Side::Text}) {
    const View all = of(call.collected[kFeatures], other(side));
    logits(compute, of(own_rows(call), side), all, room.logits);
    ops::pair_losses_backward(compute, room.logits, {call.first_row, number(kBias)},
                              call.loss_scale, room.numbers);
    if (side == Side::Image) keep_number(call.kept_by_input[kBias], sum_of(memory(), room.numbers));
    ops::scale(compute, room.logits, factor(), room.logits);
    ops::matmul(compute, room.logits, all, of(call.dx, side));
  }
  keep_scale_gradient(call);
}

}  // namespace cleave
