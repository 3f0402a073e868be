#pragma once

#include "cleave/ops/unit_rows.h"

namespace cleave::ops::reference {

void unit_rows(ConstView x, View y, View inverse);
void unit_rows_backward(ConstView dy, ConstView x, ConstView inverse, View dx);

}  // namespace cleave::ops::reference
