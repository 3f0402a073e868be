#pragma once

#include <string>

#include "cleave/comm/communicator.h"
#include "cleave/engine/run/device.h"

namespace cleave::train {

/// The hash over all master weights of a run, the same on every device.
std::string gather_weights(const engine::CompiledStep& compiled, engine::Device& device,
                           comm::Communicator& world);

}  // namespace cleave::train
