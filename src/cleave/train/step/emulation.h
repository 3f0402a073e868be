#pragma once

#include "cleave/engine/run/emulated_device.h"
#include "cleave/plan/time/costs.h"
#include "cleave/schedule/program.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// How long the emulated devices of `config` sleep.
engine::EmulatedTimes emulated_times(const Config& config);

/// What the instructions of `program` take on the emulated devices of `config`; messages take what
/// it says of links.
plan::Costs emulated_costs(const Config& config, const schedule::Program& program);

}  // namespace cleave::train
