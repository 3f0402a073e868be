#pragma once

#include <span>
#include <string_view>

#include "cleave/spec/model_shape.h"

namespace cleave {

struct Preset {
  std::string_view name;
  ModelShape shape;
  std::string_view about;
};

/// All presets, in the order help shows them.
std::span<const Preset> presets();

/// Throws UserError that lists the known names.
const Preset& find_preset(std::string_view name);

}  // namespace cleave
