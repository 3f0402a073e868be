#pragma once

#include <functional>

#include "cleave/engine/compile/compile.h"
#include "cleave/schedule/generators.h"

namespace cleave::engine {

/// Compiles an order (compute only, one replica) whether or not it fits the budgets.
using CompileOrder = std::function<CompiledStep(schedule::Program)>;

/// An order and what it compiles to.
struct Ordered {
  schedule::Program order;
  CompiledStep step;
};

/// The schedule "auto": the best order found for the options' costs that fits the budgets; if none
/// does, one that exceeds them. The same arguments give the same program on every device.
Ordered find_order(const Graph& model, const CompileOptions& options,
                   const schedule::PipelineShape& shape, const CompileOrder& compile);

}  // namespace cleave::engine
