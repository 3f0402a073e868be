// The one file that knows toml++.
#include <sstream>

#include <toml++/toml.h>

#include "cleave/base/check.h"
#include "cleave/train/config/config_value.h"

namespace cleave::train {
namespace {

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
  std::ostringstream text;
  node.visit([&](const auto& typed) { text << typed; });
  return {Value::Other{text.str()}};
}

void flatten(const toml::table& table, const std::string& prefix, const std::string& name,
             std::vector<Entry>& out) {
  for (const auto& [key, node] : table) {
    std::string dotted = prefix + std::string(key.str());
    if (const auto* inner = node.as_table()) {
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
  try {
    const toml::table parsed = toml::parse("value = " + entry.text);
    const toml::node* node = parsed.get("value");
    const bool alone = parsed.size() == 1 && !entry.text.empty();  // "1\nb = 2" is not a value
    if (alone && !node->is_table()) {
      if (Value value = convert(*node); !std::holds_alternative<Value::Other>(value.is)) {
        entry.value = std::move(value);
      }
    }
  } catch (const toml::parse_error&) {
    // Not TOML: stays the string it is.
  }
  return entry;
}

}  // namespace cleave::train
