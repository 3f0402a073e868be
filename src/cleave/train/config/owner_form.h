#pragma once

#include <optional>

#include "cleave/train/config/config_schema.h"

namespace cleave::train {

/// The tables [[edge.owner]]. Throws UserError, which names the key of the table, its value and its
/// rule; false if there are no tables.
bool set_owners(Config& config, const Value& value);
std::optional<Value> get_owners(const Config& config);

}  // namespace cleave::train
