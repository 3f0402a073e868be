#pragma once

#include "cleave/ops/placed_rows.h"

namespace cleave::ops::reference {

void place_rows(const PlacedTokens& tokens, ConstView x, ConstView table, View y);
void add_rows(ConstView places, ConstView x, ConstView rows, View y);
void place_rows_backward(ConstView places, ConstView dy, View dx);
void place_table_backward(const PlacedTokens& tokens, std::int64_t rows, ConstView dy, View dtable);

}  // namespace cleave::ops::reference
