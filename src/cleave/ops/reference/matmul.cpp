#include "cleave/ops/reference/matmul.h"

#include "cleave/ops/reference/element.h"

namespace cleave::ops::reference {
namespace {

void product(ConstView a, ConstView b, View out, const MatmulOptions& options) {
  for (std::int64_t row = 0; row < out.size(0); ++row) {
    for (std::int64_t col = 0; col < out.size(1); ++col) {
      double sum = options.write == Write::Accumulate ? get(out, {row, col}) : 0.0;
      if (options.bias) sum += get(options.bias, {col});
      for (std::int64_t i = 0; i < a.size(1); ++i) {
        sum += static_cast<double>(get(a, {row, i})) * get(b, {i, col});
      }
      set(out, {row, col}, sum);
    }
  }
}

/// The matrix at `index` of a batch.
template <class AnyView>
AnyView matrix(AnyView views, std::int64_t index) {
  const AnyView one = views.slice(0, index, 1);
  return {one.bytes(), one.dtype(), {one.size(1), one.size(2)}, {one.stride(1), one.stride(2)}};
}

}  // namespace

void matmul(ConstView a, ConstView b, View out, const MatmulOptions& options) {
  if (out.rank() == 2) return product(a, b, out, options);
  for (std::int64_t i = 0; i < out.size(0); ++i) {
    product(matrix(a, i), matrix(b, i), matrix(out, i), options);
  }
}

}  // namespace cleave::ops::reference
