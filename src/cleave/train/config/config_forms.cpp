#include "cleave/train/config/config_forms.h"

#include <string>

#include <fmt/format.h>

#include "cleave/base/units.h"
#include "cleave/train/config/config_rules.h"

namespace cleave::train {

using namespace rules;  // NOLINT(google-build-using-namespace): one table, one vocabulary

std::optional<std::int64_t> read_bytes(const Value& value) {
  const auto* number = as<std::int64_t>(value);
  const auto* text = as<std::string>(value);
  if (number == nullptr && text == nullptr) return std::nullopt;
  try {
    const std::int64_t bytes = parse_bytes(text != nullptr ? *text : std::to_string(*number));
    return bytes > 0 ? std::optional(bytes) : std::nullopt;
  } catch (const UserError&) {
    return std::nullopt;  // the caller's message states the rule, with the place
  }
}

Value write_bytes(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (unit < 4 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return {fmt::format("{}{}", bytes, kUnits[unit])};
}

std::optional<std::string> read_name(const Value& value) {
  const auto* name = as<std::string>(value);
  return name == nullptr || name->empty() ? std::nullopt : std::optional(*name);
}

}  // namespace cleave::train
