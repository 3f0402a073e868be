#pragma once

#include <vector>

#include "cleave/train/config.h"

namespace cleave::train {

/// Everything that "auto" in `config` could mean: configs in which only the partition may be open.
/// The schedules 1f1b, zb-h1, interleaved and zbv; microbatches up to 32.
std::vector<Config> alternatives(const Config& config);

}  // namespace cleave::train
