#pragma once

#include <vector>

#include "cleave/train/config/config_schema.h"

namespace cleave::train {

/// The keys of [edge].
std::vector<Key> edge_keys();

}  // namespace cleave::train
