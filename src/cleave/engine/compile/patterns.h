#pragma once

#include "cleave/engine/compile/compile.h"

namespace cleave::engine {

/// Leaves optional stages out of those microbatches of a program (compute only, one replica) that
/// have optional inputs on no replica in any step to come.
void leave_out_never_present(CompiledStep& step, const CompileOptions& options);

/// Makes the programs of all steps and evaluations that the data can bring, of the fullest ones,
/// which are planned. Each is verified; all are in the same memory.
void add_patterns(CompiledStep& step, const CompileOptions& options);

}  // namespace cleave::engine
