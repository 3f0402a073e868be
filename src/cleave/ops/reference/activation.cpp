#include "cleave/ops/reference/activation.h"

#include <cmath>
#include <numbers>

#include "cleave/ops/reference/element.h"

namespace cleave::ops::reference {
namespace {

const double kRoot = std::sqrt(2 / std::numbers::pi);

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

double gelu_of(double v, GeluForm form) {
  if (form == GeluForm::Quick) return v * sigmoid(1.702 * v);
  if (form == GeluForm::Exact) return 0.5 * v * std::erfc(-v / std::numbers::sqrt2);
  return 0.5 * v * (1 + std::tanh(kRoot * (v + 0.044715 * v * v * v)));
}

double gelu_slope(double v, GeluForm form) {
  if (form == GeluForm::Quick) {
    const double s = sigmoid(1.702 * v);
    return s + 1.702 * v * s * (1 - s);
  }
  if (form == GeluForm::Exact) {
    const double density = std::exp(-0.5 * v * v) / std::sqrt(2 * std::numbers::pi);
    return 0.5 * std::erfc(-v / std::numbers::sqrt2) + v * density;
  }
  const double tanh = std::tanh(kRoot * (v + 0.044715 * v * v * v));
  const double inner = kRoot * (1 + 3 * 0.044715 * v * v);
  return 0.5 * (1 + tanh) + 0.5 * v * (1 - tanh * tanh) * inner;
}

double tanh_gelu_of(double v) {
  return gelu_of(v, GeluForm::Tanh);
}
double tanh_gelu_slope(double v) {
  return gelu_slope(v, GeluForm::Tanh);
}

double silu_of(double v) {
  return v * sigmoid(v);
}
double silu_slope(double v) {
  const double s = sigmoid(v);
  return s + v * s * (1 - s);
}

using Function = double (*)(double);

/// y = activation(gate) · up.
void gated(ConstView gate_up, View y, Function activation) {
  const std::int64_t ffn = y.size(1);
  for (std::int64_t t = 0; t < y.size(0); ++t) {
    for (std::int64_t i = 0; i < ffn; ++i)
      set(y, {t, i}, activation(get(gate_up, {t, i})) * get(gate_up, {t, ffn + i}));
  }
}

struct GatedBackward {
  ConstView gate_up;
  ConstView dy;
  View dgate_up;
};

void gated_backward(const GatedBackward& views, Function activation, Function slope) {
  const auto& [gate_up, dy, dgate_up] = views;
  const std::int64_t ffn = dy.size(1);
  for (std::int64_t t = 0; t < dy.size(0); ++t) {
    for (std::int64_t i = 0; i < ffn; ++i) {
      const double gate = get(gate_up, {t, i});
      const double up = get(gate_up, {t, ffn + i});
      const double d = get(dy, {t, i});
      set(dgate_up, {t, i}, d * up * slope(gate));
      set(dgate_up, {t, ffn + i}, d * activation(gate));
    }
  }
}

}  // namespace

void gelu(ConstView x, View y, GeluForm form) {
  for (std::int64_t t = 0; t < x.size(0); ++t) {
    for (std::int64_t i = 0; i < x.size(1); ++i) set(y, {t, i}, gelu_of(get(x, {t, i}), form));
  }
}

void gelu_backward(ConstView x, ConstView dy, View dx, GeluForm form) {
  for (std::int64_t t = 0; t < x.size(0); ++t) {
    for (std::int64_t i = 0; i < x.size(1); ++i)
      set(dx, {t, i}, get(dy, {t, i}) * gelu_slope(get(x, {t, i}), form));
  }
}

void swiglu(ConstView gate_up, View y) {
  gated(gate_up, y, silu_of);
}

void swiglu_backward(ConstView gate_up, ConstView dy, View dgate_up) {
  gated_backward({gate_up, dy, dgate_up}, silu_of, silu_slope);
}

void geglu(ConstView gate_up, View y) {
  gated(gate_up, y, tanh_gelu_of);
}

void geglu_backward(ConstView gate_up, ConstView dy, View dgate_up) {
  gated_backward({gate_up, dy, dgate_up}, tanh_gelu_of, tanh_gelu_slope);
}

}  // namespace cleave::ops::reference
