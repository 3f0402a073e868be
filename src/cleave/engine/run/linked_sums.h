#pragma once

#include <span>

#include "cleave/engine/run/linked_program.h"

namespace cleave::engine {

/// Sets where the W of a training program's microbatches begin and end sums of gradients, and which
/// sums nothing is added to. `linked` is the list of `device` in `program`.
void link_sums(const schedule::Program& program, int device, std::span<Stage* const> stages,
               const ShardFold& fold, LinkedProgram& linked);

}  // namespace cleave::engine
