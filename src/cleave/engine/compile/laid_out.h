#pragma once

#include "cleave/engine/compile/compile.h"

namespace cleave::engine {

/// A model without what its purpose leaves out: gradients that nobody wants, or all.
Graph prepared(Graph model, Purpose purpose);

/// A model on its stages, before anything is lowered or planned: what each device at a place has of
/// it, edges, ties and gradient kinds. The program is `order` still: compute only, for one replica.
CompiledStep lay_out(const Graph& model, const CompileOptions& options, schedule::Program order);

/// Whether a segment runs once per step.
bool runs_per_step(const SegmentSpec& segment);

}  // namespace cleave::engine
