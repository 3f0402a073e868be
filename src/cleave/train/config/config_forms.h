#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cleave/train/config/config_value.h"

// Forms of values that keys of several sections share. Readers return nothing for a bad value.
namespace cleave::train {

std::optional<std::int64_t> read_bytes(const Value& value);
Value write_bytes(std::int64_t bytes);  ///< in the largest binary unit that is exact

std::optional<std::string> read_name(const Value& value);  ///< any text but none

}  // namespace cleave::train
