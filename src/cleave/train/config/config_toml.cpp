// The one file that knows toml++.
#include <algorithm>
#include <cctype>
#include <sstream>
#include <string>

#include <toml++/toml.h>

#include "cleave/base/check.h"
#include "cleave/train/config/config_schema.h"
#include "cleave/train/config/config_value.h"

namespace cleave::train {
namespace {

/// toml++ goes as deep as a dotted key has parts, on the stack.
constexpr int kMostKeyParts = 64;

/// The line in which a dotted key has too many parts; 0 if none has. Looks at runs of words, quoted
/// or not, that dots join: a list of numbers has commas between them.
int line_of_deep_key(std::string_view text) {
  int line = 1;
  int dots = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const std::size_t end = text.find_first_of(std::string{c, '\n'}, i + 1);
      i = end == std::string_view::npos || text[end] == '\n' ? i : end;
    } else if (c == '.') {
      if (++dots >= kMostKeyParts) return line;
    } else if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '-' &&
               c != ' ' && c != '\t') {
      dots = 0;
      line += c == '\n' ? 1 : 0;
    }
  }
  return 0;
}

Value convert(const toml::node& node) {
  if (const auto* b = node.as_boolean()) return {b->get()};
  if (const auto* i = node.as_integer()) return {i->get()};
  if (const auto* d = node.as_floating_point()) return {d->get()};
  if (const auto* s = node.as_string()) return {s->get()};
  if (const auto* array = node.as_array()) {
    Value::List list;
    for (const toml::node& element : *array) list.push_back(convert(element));
    return {std::move(list)};
  }
  if (const auto* inner = node.as_table()) {
    Value::Table table;
    for (const auto& [key, element] : *inner) {
      table.keys.emplace_back(key.str());
      table.values.push_back(convert(element));
    }
    return {std::move(table)};
  }
  std::ostringstream text;
  node.visit([&](const auto& typed) { text << typed; });
  return {Value::Other{text.str()}};
}

/// Whether a table of that name is the value of a key.
bool is_value(std::string_view name) {
  const auto key = std::ranges::find(config_keys(), name, &Key::name);
  return key != config_keys().end() && key->takes_tables;
}

void flatten(const toml::table& table, const std::string& prefix, const std::string& name,
             std::vector<Entry>& out) {
  for (const auto& [key, node] : table) {
    std::string dotted = prefix + std::string(key.str());
    if (const auto* inner = node.as_table(); inner != nullptr && !is_value(dotted)) {
      flatten(*inner, dotted + ".", name, out);
    } else {
      out.push_back({.key = std::move(dotted),
                     .value = convert(node),
                     .place = detail::concat("at ", name, ":", node.source().begin.line),
                     .text = {}});
    }
  }
}

}  // namespace

std::vector<Entry> read_toml(std::string_view text, const std::string& name) {
  const int deep = line_of_deep_key(text);
  require(deep == 0, name, ":", deep, " has a key of more than ", kMostKeyParts,
          " parts; no key has more than two, as in train.steps");
  try {
    std::vector<Entry> entries;
    flatten(toml::parse(text, name), "", name, entries);
    return entries;
  } catch (const toml::parse_error& error) {
    throw UserError(detail::concat(name, ":", error.source().begin.line,
                                   " is not TOML: ", error.description()));
  }
}

Entry read_override(const std::string& text) {
  const std::size_t equals = text.find('=');
  require(equals != std::string::npos && equals > 0, "--set ", text,
          " has no key=value; write for example --set train.steps=50");
  const auto trim = [](std::string_view s) {
    while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
    while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
    return std::string(s);
  };
  Entry entry{.key = trim(std::string_view(text).substr(0, equals)),
              .value = {},
              .place = "in --set",
              .text = trim(std::string_view(text).substr(equals + 1))};
  entry.value = {entry.text};
  if (line_of_deep_key(entry.text) != 0) return entry;
  try {
    const toml::table parsed = toml::parse("value = " + entry.text);
    const toml::node* node = parsed.get("value");
    const bool alone = parsed.size() == 1 && !entry.text.empty();  // "1\nb = 2" is not a value
    if (alone && (!node->is_table() || is_value(entry.key))) {
      if (Value value = convert(*node); !std::holds_alternative<Value::Other>(value.is)) {
        entry.value = std::move(value);
      }
    }
  } catch (const toml::parse_error&) {
    // What is no TOML stays the string it is.
  }
  return entry;
}

}  // namespace cleave::train
