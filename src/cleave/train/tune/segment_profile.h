#pragma once

#include <string>
#include <vector>

#include "cleave/comm/launcher.h"
#include "cleave/plan/time/costs.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// What the parts of a model, as plan::parts_of() numbers them, take on one device here, in
/// seconds; what a message between two devices takes, and a sum over them.
struct SegmentProfile {
  std::vector<plan::StageCosts> parts;  ///< [part] F, I, W and R
  double step = 0;                      ///< STEP, per parameter
  double norm = 0;                      ///< NORM, per parameter
  plan::LinkCosts link;
  plan::LinkCosts sum;
};

/// The kind of device that stands for those of a run: that of the first, if one process has them
/// all or all are alike; else a processor, which every process has.
std::string standing_kind(const Config& config, comm::Launcher& launcher);

/// Measures one block between an embedding and a head, or every block of a model whose blocks are
/// not alike, for train.microbatch of `config` and with blocks computed again as `recompute` says;
/// or finds it in the cache: files under $XDG_CACHE_HOME/cleave (or ~/.cache/cleave), named after
/// the machine and everything of the config that counts. With devices.emulate nothing is measured:
/// a block takes its share of what a device takes, or what a layer takes, and a message nothing.
/// All devices of `launcher` get the same numbers. `kind` is what devices.kind calls the device
/// that is measured; otherwise it is the standing one.
SegmentProfile profile_segments(const Config& config, schedule::Recompute recompute,
                                comm::Launcher& launcher, const std::string& kind);
SegmentProfile profile_segments(const Config& config, schedule::Recompute recompute,
                                comm::Launcher& launcher);

/// Removes what the cache has, so that it is measured again.
void forget_profiles();

}  // namespace cleave::train
