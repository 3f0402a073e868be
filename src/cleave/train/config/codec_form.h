#pragma once

#include <optional>

#include "cleave/train/config/config.h"
#include "cleave/train/config/config_value.h"

// The form of edge.codec: "int8", or {forward = "int8", backward = "bf16"}.
namespace cleave::train {

/// False, with `config` unchanged, if the value names no codecs.
bool set_codec(Config& config, const Value& value);

/// Nothing where neither updates nor cuts are coded.
std::optional<Value> get_codec(const Config& config);

}  // namespace cleave::train
