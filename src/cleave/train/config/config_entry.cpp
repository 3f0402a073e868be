#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"
#include "cleave/base/utf8.h"
#include "cleave/train/config/config_schema.h"

namespace cleave::train {
namespace {

/// Checkpoints keep the config as JSON, and the system ends a path at a NUL byte.
void check_text(const Entry& entry, const Value& value) {
  const auto* text = std::get_if<std::string>(&value.is);
  if (text == nullptr) return;
  const bool utf8 = is_utf8(*text);
  if (utf8 && text->find('\0') == std::string::npos) return;
  throw UserError(
      detail::concat(entry.key, " is \"", printable(*text), "\" ", entry.place, ", which ",
                     utf8 ? "has a NUL byte" : "is not UTF-8",
                     "; give a name in UTF-8 without NUL bytes, such as that of a link"));
}

/// Whether the dotted name is of a key below that section.
bool lies_in(std::string_view section, std::string_view name) {
  return name.size() > section.size() && name[section.size()] == '.' && name.starts_with(section);
}

}  // namespace

const Key& find_key(const Entry& entry) {
  for (const Key& key : config_keys()) {
    if (key.name == entry.key) return key;
    require(!lies_in(entry.key, key.name), entry.key, " is a section and no key (", entry.place,
            "); give its keys under [", entry.key, "]");
  }
  std::vector<std::string_view> names;
  for (const Key& key : config_keys()) names.push_back(key.name);
  throw UserError(detail::concat("there is no key ", entry.key, " (", entry.place, ")",
                                 did_you_mean(entry.key, names)));
}

void apply(const Entry& entry, Config& config) {
  const Key& key = find_key(entry);
  const bool as_typed = key.takes_text && !entry.text.empty() &&
                        !std::holds_alternative<std::string>(entry.value.is) &&
                        !(key.takes_lists && std::holds_alternative<Value::List>(entry.value.is));
  const Value value = as_typed ? Value{entry.text} : entry.value;
  check_text(entry, value);
  if (key.set(config, value)) return;
  throw UserError(detail::concat(key.name, " is ", describe(value), " ", entry.place,
                                 "; it must be ", key.rule));
}

Key Key::with(const Notes& notes) && {
  otherwise = notes.otherwise;
  example = notes.example;
  since = notes.since;
  of_layout = notes.of_layout;
  return std::move(*this);
}

std::string default_of(const Key& key) {
  if (!key.otherwise.empty()) return std::string(key.otherwise);
  const std::optional<Value> value = key.get(Config{});
  return value ? to_toml(*value) : "none";
}

std::string example_of(const Key& key) {
  return key.example.empty() ? default_of(key) : std::string(key.example);
}

}  // namespace cleave::train
