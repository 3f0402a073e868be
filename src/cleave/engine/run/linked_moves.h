#pragma once

#include "cleave/engine/run/linked_program.h"

namespace cleave::engine {

/// Resolves OUT and IN of a linked list: what they copy, between which addresses.
void link_moves(const schedule::Program& program, int device, Arena& arena, Arena& outside,
                LinkedProgram& linked);

}  // namespace cleave::engine
