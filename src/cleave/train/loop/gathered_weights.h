#pragma once

#include <string>

#include "cleave/comm/communicator.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/step/round_exchange.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {

/// The hash over all master weights of a run, the same on every device.
std::string gather_weights(const engine::CompiledStep& compiled, engine::Device& device,
                           comm::Communicator& world);

/// The same where clients take turns at the server's layers: the server has all of them, and tells.
std::string shared_weights(const engine::CompiledStep& compiled, Trainer& trainer,
                           RoundExchange& exchange);

}  // namespace cleave::train
