#include "cleave/ops/reference/unit_rows.h"

#include <cmath>

#include "cleave/ops/reference/element.h"

namespace cleave::ops::reference {

void unit_rows(ConstView x, View y, View inverse) {
  for (std::int64_t row = 0; row < x.size(0); ++row) {
    double squares = 0;
    for (std::int64_t i = 0; i < x.size(1); ++i)
      squares += static_cast<double>(get(x, {row, i})) * static_cast<double>(get(x, {row, i}));
    set(inverse, {row}, squares == 0 ? 0 : 1 / std::sqrt(squares));
    for (std::int64_t i = 0; i < x.size(1); ++i)
      set(y, {row, i}, static_cast<double>(get(x, {row, i}) * get(inverse, {row})));
  }
}

// Uses the matrix of derivatives, element by element: dy_i/dx_k = inverse · (i == k) - y_i · y_k ·
// inverse.
void unit_rows_backward(ConstView dy, ConstView x, ConstView inverse, View dx) {
  for (std::int64_t row = 0; row < x.size(0); ++row) {
    const double factor = get(inverse, {row});
    for (std::int64_t k = 0; k < x.size(1); ++k) {
      double sum = 0;
      for (std::int64_t i = 0; i < x.size(1); ++i) {
        const double y_i = static_cast<double>(get(x, {row, i})) * factor;
        const double y_k = static_cast<double>(get(x, {row, k})) * factor;
        sum += static_cast<double>(get(dy, {row, i})) * factor * ((i == k ? 1 : 0) - y_i * y_k);
      }
      set(dx, {row, k}, sum);
    }
  }
}

}  // namespace cleave::ops::reference
