#include "cleave/train/config/config_version.h"

#include <array>
#include <charconv>
#include <optional>

#include "cleave/base/check.h"
#include "cleave/base/version.h"

namespace cleave::train {
namespace {

using VersionNumbers = std::array<int, 3>;

/// "0.1" and "0.1.0" are the same version.
std::optional<VersionNumbers> numbers_of(std::string_view text) {
  VersionNumbers numbers{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int& number : numbers) {
    const auto [after, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0) return std::nullopt;
    if (after == end) return numbers;
    if (*after != '.') return std::nullopt;
    at = after + 1;
  }
  return std::nullopt;
}

}  // namespace

bool states_version(const Entry& entry) {
  if (entry.key != "cleave") return false;
  const auto* text = std::get_if<std::string>(&entry.value.is);
  const auto wanted = text != nullptr ? numbers_of(*text) : std::nullopt;
  require(wanted.has_value(), "cleave is ", describe(entry.value), " ", entry.place,
          "; it must be the version for which the config was written, such as \"", version(), "\"");
  require(*wanted <= *numbers_of(version()), "the config is for cleave ", *text, " (", entry.place,
          "), and this is ", version(), "; install that version, or take out the line and see");
  return true;
}

}  // namespace cleave::train
