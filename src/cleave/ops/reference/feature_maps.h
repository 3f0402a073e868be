#pragma once

#include "cleave/spec/map_spec.h"
#include "cleave/tensor/view.h"

/// Images that keep their place, as written on paper.
namespace cleave::ops::reference {

/// y = (x - mean) / sqrt(variance + eps) · weight + bias, of groups of channels over all pixels, in
/// f64.
///
///   x, y  [samples, pixels · channels]   weight, bias  [channels]
void group_norm(const GroupAttributes& groups, ConstView x, ConstView weight, ConstView bias,
                View y);

/// y[s, row, column] = x[s, row / by, column / by].
void upsample(const MapShape& map, std::int64_t by, ConstView x, View y);

/// y[s, row, column] = x[s, row - margin, column - margin], or 0 outside x.
void pad(const MapShape& map, std::int64_t margin, ConstView x, View y);

}  // namespace cleave::ops::reference
