#pragma once

#include <vector>

#include "cleave/train/config/config.h"

namespace cleave::train {

/// Every way to divide the devices, the batch and the layers that "auto" in `config` leaves open:
/// axes, microbatches up to 32, schedules and chunks. The partition, ZeRO and recompute may still
/// be open. The plainer of two comes first.
std::vector<Config> alternatives(const Config& config);

/// What `layout` can do about memory, where ZeRO and recompute are open: every combination, the
/// least first. Nothing but the partition is open any more.
std::vector<Config> savings(const Config& layout);

/// How much of that a run does: 0 if it shares and recomputes nothing.
int degree_of_saving(const Config& run);

}  // namespace cleave::train
