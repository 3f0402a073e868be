#include "plan/key_values.h"

#include <algorithm>
#include <charconv>

#include "words.h"

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"

namespace cleave::app {

KeyValues::KeyValues(std::string_view flag, std::string_view text,
                     std::span<const std::string_view> known)
    : flag_(flag) {
  if (text.empty()) return;
  for (const std::string_view part : split(text, ',')) {
    const auto equals = part.find('=');
    require(equals != part.npos && equals > 0 && equals + 1 < part.size(), flag, ": '", part,
            "' is not of the form key=value");
    const std::string_view key = part.substr(0, equals);
    require(std::ranges::count(known, key) > 0, flag, " does not know '", key, "'",
            known_are(key, known));
    const bool fresh =
        values_.emplace(std::string(key), std::string(part.substr(equals + 1))).second;
    require(fresh, flag, " has '", key, "' twice; leave one out");
  }
}

std::int64_t KeyValues::number(std::string_view key, std::int64_t otherwise) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return otherwise;
  const std::string& text = found->second;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size() && value >= 0, flag_, " ", key,
          "=", text, " is not a whole number from 0 on");
  return value;
}

std::string KeyValues::text(std::string_view key, std::string_view otherwise) const {
  const auto found = values_.find(key);
  return found == values_.end() ? std::string(otherwise) : found->second;
}

bool KeyValues::truth(std::string_view key, bool otherwise) const {
  const std::string value = text(key, otherwise ? "true" : "false");
  require(value == "true" || value == "false", flag_, " ", key, "=", value,
          " must be true or false");
  return value == "true";
}

}  // namespace cleave::app
