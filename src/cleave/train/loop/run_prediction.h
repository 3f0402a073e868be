#pragma once

#include "cleave/engine/measure/profile.h"
#include "cleave/train/loop/job.h"

namespace cleave::train {

/// What the simulator makes of a profile of the run's own step: its timeline, its seconds, and the
/// range that these may be in.
void predict_run(const Job& job, const engine::Profile& profile, RunReport& report);

}  // namespace cleave::train
