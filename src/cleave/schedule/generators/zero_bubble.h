#pragma once

#include "cleave/schedule/generators/generator.h"

namespace cleave::schedule {

/// 1F1B with backward split into I and W, where a device runs `reach` times as far ahead of its
/// backward as in 1F1B and holds W back by `reach * device` microbatches. Both together keep
/// min(reach * (devices - 1) + 1, microbatches) microbatches alive on every device.
Program delayed_weights(std::string_view schedule, const PipelineShape& shape, int reach);

}  // namespace cleave::schedule
