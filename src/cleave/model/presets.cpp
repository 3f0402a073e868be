#include "cleave/model/presets.h"

#include <string_view>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"

namespace cleave::model {

std::vector<Preset> presets(std::span<const Family* const> known) {
  std::vector<Preset> all;
  for (const Family* family : known)
    all.insert(all.end(), family->presets.begin(), family->presets.end());
  return all;
}

Preset find_preset(std::string_view name, std::span<const Family* const> known) {
  std::vector<std::string_view> names;
  for (const Preset& preset : presets(known)) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  throw UserError(
      detail::concat("there is no model preset \"", name, "\"", known_are(name, names)));
}

}  // namespace cleave::model
