#include "cleave/model/presets.h"

#include <string>

#include "cleave/base/check.h"

namespace cleave::model {

std::vector<Preset> presets(std::span<const Family* const> known) {
  std::vector<Preset> all;
  for (const Family* family : known)
    all.insert(all.end(), family->presets.begin(), family->presets.end());
  return all;
}

Preset find_preset(std::string_view name, std::span<const Family* const> known) {
  std::string names;
  for (const Preset& preset : presets(known)) {
    if (preset.name == name) return preset;
    names += detail::concat(names.empty() ? "" : ", ", preset.name);
  }
  throw UserError(detail::concat("there is no model preset \"", name, "\"; known are ", names));
}

}  // namespace cleave::model
