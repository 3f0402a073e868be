#pragma once

#include <string_view>
#include <vector>

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

}  // namespace cleave::app
