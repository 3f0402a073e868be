#include "cleave/ops/reference/placed_rows.h"

#include "cleave/ops/reference/element.h"

namespace cleave::ops::reference {
namespace {

std::int32_t number(ConstView numbers, std::int64_t t) {
  return numbers.as<std::int32_t>()[t];
}

bool of_image(ConstView places, std::int64_t t, std::int64_t rows) {
  return number(places, t) >= 0 && number(places, t) < rows;
}

}  // namespace

void place_rows(const PlacedTokens& tokens, ConstView x, ConstView table, View y) {
  for (std::int64_t t = 0; t < y.size(0); ++t) {
    for (std::int64_t i = 0; i < y.size(1); ++i) {
      set(y, {t, i},
          of_image(tokens.places, t, x.size(0)) ? get(x, {number(tokens.places, t), i})
                                                : get(table, {number(tokens.ids, t), i}));
    }
  }
}

void add_rows(ConstView places, ConstView x, ConstView rows, View y) {
  for (std::int64_t t = 0; t < y.size(0); ++t) {
    for (std::int64_t i = 0; i < y.size(1); ++i) {
      const float row =
          of_image(places, t, rows.size(0)) ? get(rows, {number(places, t), i}) : 0.0f;
      set(y, {t, i}, get(x, {t, i}) + row);
    }
  }
}

// Sums are in token order, as in the ops: they must agree to the last bit.

void place_rows_backward(ConstView places, ConstView dy, View dx) {
  for (std::int64_t row = 0; row < dx.size(0); ++row) {
    for (std::int64_t i = 0; i < dx.size(1); ++i) {
      set(dx, {row, i}, 0);
      for (std::int64_t t = 0; t < dy.size(0); ++t)
        if (number(places, t) == row) set(dx, {row, i}, get(dx, {row, i}) + get(dy, {t, i}));
    }
  }
}

void place_table_backward(const PlacedTokens& tokens, std::int64_t rows, ConstView dy,
                          View dtable) {
  for (std::int64_t t = 0; t < dy.size(0); ++t) {
    if (of_image(tokens.places, t, rows)) continue;
    const std::int64_t id = number(tokens.ids, t);
    if (id == tokens.still) continue;
    for (std::int64_t i = 0; i < dy.size(1); ++i)
      set(dtable, {id, i}, get(dtable, {id, i}) + get(dy, {t, i}));
  }
}

}  // namespace cleave::ops::reference
