#pragma once

#include "cleave/engine/run/linked_program.h"

namespace cleave::engine {

/// Resolves the messages of a device that pass through the host's memory: what OUT and IN copy, and
/// that SEND and RECV have it there. `host` is where they pass.
void link_messages(const schedule::Program& program, int device, Arena& host,
                   LinkedProgram& linked);

}  // namespace cleave::engine
