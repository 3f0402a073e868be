#include "cleave/ops/reference/elementwise.h"

#include <cmath>

#include "cleave/ops/reference/element.h"

namespace cleave::ops::reference {
namespace {

template <class Fn>
void for_elements(View out, const Fn& value) {
  for (std::int64_t row = 0; row < out.size(0); ++row) {
    for (std::int64_t column = 0; column < out.size(1); ++column) {
      set(out, {row, column}, value(row, column));
    }
  }
}

}  // namespace

void add(ConstView a, ConstView b, View out) {
  for_elements(out, [&](std::int64_t row, std::int64_t column) {
    return get(a, {row, column}) + get(b, {row, column});
  });
}

void scale(ConstView a, float factor, View out) {
  for_elements(out, [&](std::int64_t row, std::int64_t column) {
    return get(a, {row, column}) * factor;
  });
}

void weighted_sum(const Weighted& a, const Weighted& b, View out) {
  for_elements(out, [&](std::int64_t row, std::int64_t column) {
    const float second = static_cast<float>(get(b.values, {row, column})) * b.weight;
    return std::fma(static_cast<float>(get(a.values, {row, column})), a.weight, second);
  });
}

void copy(ConstView a, View out) {
  for_elements(out, [&](std::int64_t row, std::int64_t column) { return get(a, {row, column}); });
}

void add_column_sums(ConstView a, View out) {
  for (std::int64_t column = 0; column < a.size(1); ++column) {
    double sum = get(out, {column});
    for (std::int64_t row = 0; row < a.size(0); ++row) sum += get(a, {row, column});
    set(out, {column}, sum);
  }
}

}  // namespace cleave::ops::reference
