#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "cleave/model/family.h"

namespace cleave::model {

struct Preset {
  std::string_view name;
  ModelShape shape;
  std::string_view about;
};

/// The presets of all families, in the order help shows them.
std::vector<Preset> presets(std::span<const Family* const> known = families());

/// Throws UserError that lists the known names.
Preset find_preset(std::string_view name, std::span<const Family* const> known = families());

}  // namespace cleave::model
