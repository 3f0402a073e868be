#pragma once

#include "cleave/comm/launcher.h"
#include "cleave/plan/time/costs.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// What the three kinds of segments of a model take on one device here, in seconds, and what a
/// message between two takes, and a sum over them.
struct SegmentProfile {
  plan::StageCosts embedding;
  plan::StageCosts block;
  plan::StageCosts head;
  double step = 0;  ///< STEP, per parameter
  double norm = 0;  ///< NORM, per parameter
  plan::LinkCosts link;
  plan::LinkCosts sum;
};

/// Measures one block between an embedding and a head, for train.microbatch of `config`, or finds
/// it in the cache: files under $XDG_CACHE_HOME/cleave (or ~/.cache/cleave), named after the
/// machine and everything of the config that counts. With devices.emulate nothing is measured: a
/// block takes its share of what a device takes, or what a layer takes, and a message nothing. All
/// devices of `world` get the same numbers.
SegmentProfile profile_segments(const Config& config, comm::Launcher& launcher);

/// Removes what the cache has, so that it is measured again.
void forget_profiles();

/// Seconds that R of a block takes, in the same way.
double profile_recompute(const Config& config, schedule::Recompute kind, comm::Launcher& launcher);

}  // namespace cleave::train
