#pragma once

#include <optional>

#include "cleave/train/config/config.h"

namespace cleave::train {

/// The rules that join several keys. Throws UserError on the first that is broken.
void check(const Config& config, std::optional<std::int64_t> world_size);

}  // namespace cleave::train
