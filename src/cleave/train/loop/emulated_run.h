#pragma once

#include "cleave/train/loop/run.h"

namespace cleave::train {

/// The steps of `config` on devices that sleep as devices.emulate says: no data, no weights,
/// nothing saved. Losses and weights of the report are empty; its memory is that of messages, which
/// is all that these devices hold. Refuses what the model would not fit into, as a real run does.
RunReport run_emulated(const Config& config, const RunOptions& options, RunObserver& observer,
                       comm::Launcher& launcher);

}  // namespace cleave::train
