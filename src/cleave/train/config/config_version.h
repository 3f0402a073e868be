#pragma once

#include "cleave/train/config/config_value.h"

namespace cleave::train {

/// Whether the entry is the line `cleave = "0.1"`, by which a config says for which version it was
/// written. Throws UserError if that version is newer than this one, or no version at all.
bool states_version(const Entry& entry);

}  // namespace cleave::train
