#pragma once

// How the parts of a tokenizer.json are read: each has a "type", and one row of a table by that
// name makes it.

#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/data/tokenizer/code_point.h"
#include "cleave/data/tokenizer/regex.h"

namespace cleave::data::tokenizer {

using Json = nlohmann::json;

template <class Make>
struct Kind {
  std::string_view type;
  Make make;
};

/// The row of `json`'s type. Throws UserError with the known types.
template <class Make>
const Kind<Make>& kind_of(const Json& json, std::string_view part,
                          std::span<const Kind<Make>> kinds) {
  require(json.is_object() && json.contains("type") && json["type"].is_string(), part,
          " has no \"type\"");
  const auto& type = json["type"].get_ref<const std::string&>();
  std::string known;
  for (const Kind<Make>& kind : kinds) {
    if (kind.type == type) return kind;
    known += (known.empty() ? "" : ", ") + std::string(kind.type);
  }
  throw UserError(detail::concat(part, " \"", type, "\" is not known; known are ", known));
}

/// `json[key]`, or `otherwise` where it is missing or null.
template <class T>
T value_or(const Json& json, std::string_view key, T otherwise) {
  const auto at = json.find(key);
  return at == json.end() || at->is_null() ? otherwise : at->get<T>();
}

/// `json[key]`, which must be a list.
inline const Json& list_at(const Json& json, const char* key) {
  const Json& list = json.at(key);
  require(list.is_array(), "\"", key, "\" must be a list");
  return list;
}

/// `text`, the value of `key`, which must be one character.
inline std::string one_character(std::string text, std::string_view key) {
  require(!text.empty() && static_cast<std::size_t>(character_length(text[0])) == text.size(), "\"",
          key, "\" is \"", text, "\", which must be one character");
  return text;
}

/// A "pattern": {"String": text} or {"Regex": pattern}.
inline Regex read_pattern(const Json& json) {
  require(json.is_object() && json.size() == 1,
          "a pattern must be {\"String\": …} or {\"Regex\": …}");
  if (json.contains("Regex")) return Regex(json["Regex"].get_ref<const std::string&>());
  return Regex::literal(json.at("String").get_ref<const std::string&>());
}

}  // namespace cleave::data::tokenizer
