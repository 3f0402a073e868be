#pragma once

#include "cleave/engine/stage/optimizer.h"

namespace cleave::engine {

/// From now on optimizers() has it, and train.optimizer may be its name in configs of this process.
/// Before anything runs. Throws UserError if there is an optimizer of that name.
void add_optimizer(OptimizerKind kind);

}  // namespace cleave::engine
