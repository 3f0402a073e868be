#include "cleave/ops/reference/pair_loss.h"

#include <cmath>

#include "cleave/ops/reference/element.h"

namespace cleave::ops::reference {

void pair_losses(ConstView logits, const Pairing& pairing, View losses) {
  for (std::int64_t row = 0; row < logits.size(0); ++row) {
    double sum = 0;
    for (std::int64_t j = 0; j < logits.size(1); ++j) {
      const double sign = j == pairing.first + row ? 1 : -1;
      const double v = static_cast<double>(get(logits, {row, j}) + pairing.bias);
      sum -= std::log(1 / (1 + std::exp(-sign * v)));
    }
    set(losses, {row}, sum);
  }
}

void pair_losses_backward(View logits, const Pairing& pairing, float scale, View sums) {
  for (std::int64_t row = 0; row < logits.size(0); ++row) {
    double sum = 0;
    for (std::int64_t j = 0; j < logits.size(1); ++j) {
      const double sign = j == pairing.first + row ? 1 : -1;
      const double v = static_cast<double>(get(logits, {row, j}) + pairing.bias);
      const double slope = -sign * static_cast<double>(scale) / (1 + std::exp(sign * v));
      set(logits, {row, j}, slope);
      sum += slope;
    }
    set(sums, {row}, sum);
  }
}

}  // namespace cleave::ops::reference
