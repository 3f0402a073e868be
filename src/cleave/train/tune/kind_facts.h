#pragma once

#include <cstdint>
#include <vector>

#include "cleave/comm/launcher.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// What the kinds of the devices of a run mean for a plan. Empty where all devices are alike, or
/// where each is a process of its own and knows nothing of the others.
struct KindFacts {
  std::vector<double> speed;         ///< [device] beside standing_kind()'s, measured
  std::vector<std::int64_t> memory;  ///< [device] bytes that an accelerator gives it in one block;
                                     ///< no limit for a processor
};

/// Measures what the segments of `config` take on every kind that its devices have.
KindFacts kind_facts(const Config& config, comm::Launcher& launcher);

}  // namespace cleave::train
