#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace cleave::app {

/// The parts of `text` between `separator`s, without the blanks around them.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  const auto trim = [](std::string_view part) {
    const auto first = part.find_first_not_of(" \t\r");
    if (first == part.npos) return std::string_view{};
    return part.substr(first, part.find_last_not_of(" \t\r") - first + 1);
  };
  std::vector<std::string_view> parts;
  for (auto at = text.find(separator); at != text.npos; at = text.find(separator)) {
    parts.push_back(trim(text.substr(0, at)));
    text.remove_prefix(at + 1);
  }
  parts.push_back(trim(text));
  return parts;
}

/// "813", "44.4K", "124M", "1.10B": three significant digits, as sizes of models are said.
inline std::string rounded_count(std::int64_t count) {
  constexpr std::string_view kUnits = "KMBT";
  auto value = static_cast<double>(count);
  std::size_t unit = 0;  // of thousands taken away
  while (value >= 999.5 && unit < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) return std::to_string(count);
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", value, decimals, kUnits[unit - 1]);
}

}  // namespace cleave::app
