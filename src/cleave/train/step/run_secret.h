#pragma once

#include "cleave/comm/communicator.h"
#include "cleave/secure/secret.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// What masks and noise of a run are drawn from: of the operating system's generator, not of the
/// seed. It is kept in train.out/secret, readable by its owner alone, so that a run that goes on
/// repeats a round with the noise that it had. All devices call it, and all have the same.
secure::Bytes32 run_secret(const Config& config, comm::Communicator& world);

}  // namespace cleave::train
