#pragma once

#include "cleave/engine/compile/compile.h"

namespace cleave::engine {

/// Throws UserError if an accelerator would have to compute what has no kernels for it: a layer or
/// an optimizer from outside of cleave that reads elements itself.
void check_accelerated(const CompiledStep& step, const CompileOptions& options);

/// The places, ascending, whose messages pass through the host's memory: those with an accelerator.
std::vector<int> places_through_host(const CompiledStep& step, const CompileOptions& options);

}  // namespace cleave::engine
