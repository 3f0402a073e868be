#pragma once

#include "cleave/engine/compile/compile.h"

namespace cleave::engine {

/// Plans room for a copy of what is saved, master weights and moments, after everything else: on
/// all devices of the first replica, or, if it exceeds the budget of one, on none.
void plan_staging(CompiledStep& step);

}  // namespace cleave::engine
