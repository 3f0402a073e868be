#pragma once

#include <vector>

#include "cleave/engine/compile/compile.h"

namespace cleave::engine {

/// Sets how many segments of `model` each stage of an order (compute only, one replica) has. Where
/// microbatches may lack the model's optional inputs, a stage that has segments which read nothing
/// else beside others is cut between them: its parts stay on their device, one right after the
/// other.
schedule::Program with_segments(schedule::Program order, const Graph& model,
                                const CompileOptions& options);

/// Of a step that is laid out: the stages that have no part in microbatches without optional
/// inputs.
std::vector<int> optional_stages(const CompiledStep& step);

}  // namespace cleave::engine
