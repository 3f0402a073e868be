#pragma once

#include <optional>
#include <string>

#include "cleave/train/config/config.h"
#include "cleave/train/config/config_value.h"

// How model.rope_scaling is written: "llama3,factor=8,original_context=8192".
namespace cleave::train {

std::string rope_scaling_rule();
bool set_rope_scaling(Config& config, const Value& value);
std::optional<Value> get_rope_scaling(const Config& config);

}  // namespace cleave::train
