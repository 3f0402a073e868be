#pragma once

#include <span>
#include <string>

#include "cleave/comm/transport.h"
#include "cleave/runtime/stage.h"
#include "cleave/schedule/program.h"

namespace cleave::runtime {

/// Bytes that `device` of the program sends in one step, by what they are for; the exchange of
/// losses and squares at NORM is not in it. `stages`: all of the program, bound or not.
comm::Sent planned_traffic(const schedule::Program& program, std::span<const Stage* const> stages,
                           std::span<const std::string> tie_names, int device);

}  // namespace cleave::runtime
