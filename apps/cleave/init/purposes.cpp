#include "init/purposes.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"
#include "cleave/train/config/config_value.h"

namespace cleave::app {

std::span<const Purpose> purposes() {
  static const std::array all = {text_purpose(), fine_tune_purpose(), vision_purpose(),
                                 cluster_purpose(), edge_purpose()};
  return all;
}

const Purpose& find_purpose(std::string_view name) {
  const auto found = std::ranges::find(purposes(), name, &Purpose::name);
  if (found != purposes().end()) return *found;
  std::vector<std::string_view> names;
  for (const Purpose& purpose : purposes()) names.push_back(purpose.name);
  throw UserError(detail::concat("there is no config for '", name, "'", known_are(name, names)));
}

std::string sums(int lines, std::uint32_t seed) {
  std::string text;
  std::uint32_t random = seed;
  for (int line = 0; line < lines; ++line) {
    random = random * 1664525 + 1013904223;  // the quality of these numbers does not matter
    const std::uint32_t a = (random >> 24) % 100;
    const std::uint32_t b = (random >> 16 & 255) % 100;
    text += fmt::format("{} + {} = {}\n", a, b, a + b);
  }
  return text;
}

std::string path_value(const std::filesystem::path& path) {
  return to_toml(train::Value{std::filesystem::absolute(path).lexically_normal().string()});
}

}  // namespace cleave::app
