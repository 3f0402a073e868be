#pragma once

#include "cleave/ops/feature_maps.h"

// The ops of the same names on an accelerator; their arguments are checked.
namespace cleave::ops::device {

void pad(Accelerator& device, const MapShape& map, std::int64_t margin, ConstView x, View y);
void crop(Accelerator& device, const MapShape& map, std::int64_t margin, ConstView y, View x);
void upsample(Accelerator& device, const MapShape& map, std::int64_t by, ConstView x, View y);
void sum_squares(Accelerator& device, const MapShape& map, std::int64_t by, ConstView y, View x);
void mean_pixels(Accelerator& device, ConstView x, View y);
void mean_pixels_backward(Accelerator& device, ConstView dy, View dx);
void group_norm(Accelerator& device, const GroupNormArgs& args);
void group_norm_backward(Accelerator& device, const GroupNormBackwardArgs& args);
void add_group_norm_gradients(Accelerator& device, const GroupNormSums& args);

}  // namespace cleave::ops::device
