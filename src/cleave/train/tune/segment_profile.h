#pragma once

#include <cstddef>
#include <vector>

#include "cleave/comm/launcher.h"
#include "cleave/plan/time/costs.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// What the segments of a model take on one device here, in seconds, and what a message between two
/// takes, and a sum over them.
struct SegmentProfile {
  plan::StageCosts embedding;
  std::vector<plan::StageCosts> blocks;  ///< one, if all are alike
  plan::StageCosts head;
  double step = 0;  ///< STEP, per parameter
  double norm = 0;  ///< NORM, per parameter
  plan::LinkCosts link;
  plan::LinkCosts sum;

  const plan::StageCosts& block(std::size_t index) const {
    return blocks.size() == 1 ? blocks[0] : blocks[index];
  }
};

/// Measures one block between an embedding and a head, or every block of a model whose blocks are
/// not alike, for train.microbatch of `config`, or finds it in the cache: files under
/// $XDG_CACHE_HOME/cleave (or ~/.cache/cleave), named after the machine and everything of the
/// config that counts. With devices.emulate nothing is measured: a block takes its share of what a
/// device takes, or what a layer takes, and a message nothing. All devices of `world` get the same
/// numbers.
SegmentProfile profile_segments(const Config& config, comm::Launcher& launcher);

/// Removes what the cache has, so that it is measured again.
void forget_profiles();

/// [block] -> seconds that its R takes, in the same way; one, if all are alike.
std::vector<double> profile_recompute(const Config& config, schedule::Recompute kind,
                                      comm::Launcher& launcher);

}  // namespace cleave::train
