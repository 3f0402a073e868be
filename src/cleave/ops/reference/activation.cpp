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

}  // namespace

void gelu(ConstView x, View y) {
  for (std::int64_t t = 0; t < x.size(0); ++t) {
    for (std::int64_t i = 0; i < x.size(1); ++i) {
      const double v = get(x, {t, i});
      set(y, {t, i}, 0.5 * v * (1 + std::tanh(kRoot * (v + 0.044715 * v * v * v))));
    }
  }
}

void gelu_backward(ConstView x, ConstView dy, View dx) {
  for (std::int64_t t = 0; t < x.size(0); ++t) {
    for (std::int64_t i = 0; i < x.size(1); ++i) {
      const double v = get(x, {t, i});
      const double tanh = std::tanh(kRoot * (v + 0.044715 * v * v * v));
      const double inner = kRoot * (1 + 3 * 0.044715 * v * v);
      const double slope = 0.5 * (1 + tanh) + 0.5 * v * (1 - tanh * tanh) * inner;
      set(dx, {t, i}, get(dy, {t, i}) * slope);
    }
  }
}

void swiglu(ConstView gate_up, View y) {
  const std::int64_t ffn = y.size(1);
  for (std::int64_t t = 0; t < y.size(0); ++t) {
    for (std::int64_t i = 0; i < ffn; ++i) {
      const double gate = get(gate_up, {t, i});
      set(y, {t, i}, gate * sigmoid(gate) * get(gate_up, {t, ffn + i}));
    }
  }
}

void swiglu_backward(ConstView gate_up, ConstView dy, View dgate_up) {
  const std::int64_t ffn = dy.size(1);
  for (std::int64_t t = 0; t < dy.size(0); ++t) {
    for (std::int64_t i = 0; i < ffn; ++i) {
      const double gate = get(gate_up, {t, i});
      const double up = get(gate_up, {t, ffn + i});
      const double d = get(dy, {t, i});
      const double s = sigmoid(gate);
      set(dgate_up, {t, i}, d * up * (s + gate * s * (1 - s)));
      set(dgate_up, {t, ffn + i}, d * gate * s);
    }
  }
}

}  // namespace cleave::ops::reference
