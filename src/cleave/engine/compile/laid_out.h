#pragma once

#include "cleave/engine/compile/compile.h"

namespace cleave::engine {

/// A model without what its purpose leaves out: gradients that nobody wants, or all.
Graph prepared(Graph model, Purpose purpose);

/// A model on its stages, before anything is lowered or planned: what each device at a place has of
/// it, edges, ties and gradient kinds. The program is `order` still: compute only, for one replica.
CompiledStep lay_out(const Graph& model, const CompileOptions& options, schedule::Program order);

/// Throws UserError if the messages of a step are more than a transport tells apart: those of every
/// microbatch of all replicas, both ways along every edge.
void check_message_count(std::int64_t edges, std::int64_t replicas, std::int64_t microbatches);

/// Whether a segment runs once per step.
bool runs_per_step(const SegmentSpec& segment);

}  // namespace cleave::engine
