#pragma once

#include <optional>
#include <string>

#include "cleave/train/config/config.h"

namespace cleave::train {

/// The rules that join several keys. Throws UserError on the first that is broken.
void check(const Config& config, std::optional<std::int64_t> world_size);

/// Why optimizer state must be in the devices' memory between steps, as a clause with the remedy;
/// empty: it may move out.
std::string reason_state_stays(const Config& config);

}  // namespace cleave::train
