#include "cleave/train/config/owner_form.h"

#include <algorithm>
#include <iterator>

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"
#include "cleave/train/config/config_forms.h"
#include "cleave/train/config/config_rules.h"

namespace cleave::train {
namespace {

using namespace rules;  // NOLINT(google-build-using-namespace): as in config_schema.cpp
using edge::Owner;
using edge::Role;

/// One key of an [[edge.owner]].
struct OwnerKey {
  std::string_view name;
  std::string_view rule;
  bool (*set)(Owner& owner, const Value& value);
  std::optional<Value> (*get)(const Owner& owner);
};

bool set_text(std::string& place, const Value& value) {
  const auto* text = as<std::string>(value);
  if (text == nullptr || text->empty()) return false;
  place = *text;
  return true;
}

std::optional<Value> get_text(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(Value{text});
}

std::vector<std::string> words_of(const Value& value) {
  std::vector<std::string> words;
  const auto* list = as<Value::List>(value);
  for (const Value& element : list != nullptr ? *list : Value::List{value}) {
    const auto* word = as<std::string>(element);
    words.push_back(word == nullptr ? "" : *word);
  }
  return words;
}

bool set_holds(Owner& owner, const Value& value) {
  owner.holds_inputs = owner.holds_labels = false;
  for (const std::string& word : words_of(value)) {
    if (word != "inputs" && word != "labels") return false;
    (word == "inputs" ? owner.holds_inputs : owner.holds_labels) = true;
  }
  return true;
}

std::optional<Value> get_holds(const Owner& owner) {
  Value::List list;
  if (owner.holds_inputs) list.push_back({std::string("inputs")});
  if (owner.holds_labels) list.push_back({std::string("labels")});
  return Value{std::move(list)};
}

bool set_sends(Owner& owner, const Value& value) {
  owner.sends.clear();
  for (const std::string& word : words_of(value)) {
    const auto what = edge::class_named(word);
    if (!what) return false;
    owner.sends.push_back(*what);
  }
  std::ranges::sort(owner.sends);
  return true;
}

std::optional<Value> get_sends(const Owner& owner) {
  Value::List list;
  for (const edge::Class what : owner.sends) list.push_back({std::string(name_of(what))});
  return Value{std::move(list)};
}

bool set_layers(Owner& owner, const Value& value) {
  const auto* list = as<Value::List>(value);
  const Value::List given = list != nullptr ? *list : Value::List{value};
  if (given.empty() || given.size() > 2) return false;
  owner.layers.clear();
  for (const Value& element : given) {
    if (!Whole{0, 1 << 20}.holds(element)) return false;
    owner.layers.push_back(*as<std::int64_t>(element));
  }
  return true;
}

std::optional<Value> get_layers(const Owner& owner) {
  if (owner.layers.empty()) return std::nullopt;
  Value::List list;
  for (const std::int64_t layers : owner.layers) list.push_back({layers});
  return Value{std::move(list)};
}

bool set_memory(Owner& owner, const Value& value) {
  const auto bytes = read_bytes(value);
  if (bytes) owner.memory = *bytes;
  return bytes.has_value();
}

const OwnerKey kOwnerKeys[] = {
    {"name", "a name", [](Owner& o, const Value& v) { return set_text(o.name, v); },
     [](const Owner& o) { return get_text(o.name); }},
    {"role", "\"client\" or \"server\"",
     [](Owner&, const Value& v) {
       const auto* text = as<std::string>(v);
       return text != nullptr && (*text == "client" || *text == "server");
     },
     [](const Owner& o) {
       return std::optional(Value{std::string(o.role == Role::Client ? "client" : "server")});
     }},
    {"memory", "a size such as \"64MiB\"", set_memory,
     [](const Owner& o) {
       return o.memory == 0 ? std::nullopt : std::optional(write_bytes(o.memory));
     }},
    {"holds", "a list of \"inputs\" and \"labels\"", set_holds, get_holds},
    {"sends",
     "a list of \"input\", \"label\", \"activation\", \"gradient\", \"weight\", \"update\", "
     "\"masked update\", \"noised update\" and \"statistic\"",
     set_sends, get_sends},
    {"data", "a path", [](Owner& o, const Value& v) { return set_text(o.data, v); },
     [](const Owner& o) { return get_text(o.data); }},
    {"layers", "how many layers come before the server's, or [before, after]", set_layers,
     get_layers},
    {"devices", "a whole number from 1 to 1024",
     [](Owner& o, const Value& v) {
       if (!Whole{1, 1024}.holds(v)) return false;
       o.devices = *as<std::int64_t>(v);
       return true;
     },
     [](const Owner& o) {
       return o.devices == 1 ? std::nullopt : std::optional(Value{o.devices});
     }},
};

/// What holds where it says nothing depends on its role, which may stand anywhere in it.
Owner read_owner(const Value::Table& table) {
  const auto role = std::ranges::find(table.keys, "role");
  const bool server =
      role != table.keys.end() && to_toml(table.values[role - table.keys.begin()]) == "\"server\"";
  Owner owner = edge::usual_owner(server ? Role::Server : Role::Client);
  std::vector<std::string_view> names;
  for (const OwnerKey& key : kOwnerKeys) names.push_back(key.name);
  for (std::size_t i = 0; i < table.keys.size(); ++i) {
    const auto* const key = std::ranges::find(kOwnerKeys, table.keys[i], &OwnerKey::name);
    require(key != std::end(kOwnerKeys), "there is no key ", table.keys[i], " in [[edge.owner]]",
            did_you_mean(table.keys[i], names));
    require(key->set(owner, table.values[i]), key->name, " of an [[edge.owner]] is ",
            describe(table.values[i]), "; it must be ", key->rule);
  }
  return owner;
}

}  // namespace

bool set_owners(Config& config, const Value& value) {
  const auto* list = as<Value::List>(value);
  if (list == nullptr) return false;
  std::vector<Owner> owners;
  for (const Value& element : *list) {
    const auto* table = as<Value::Table>(element);
    if (table == nullptr) return false;
    owners.push_back(read_owner(*table));
  }
  config.edge.owners = std::move(owners);
  return true;
}

std::optional<Value> get_owners(const Config& config) {
  if (config.edge.owners.empty()) return std::nullopt;
  Value::List list;
  for (const Owner& owner : config.edge.owners) {
    Value::Table table;
    for (const OwnerKey& key : kOwnerKeys) {
      const std::optional<Value> value = key.get(owner);
      if (!value) continue;
      table.keys.emplace_back(key.name);
      table.values.push_back(*value);
    }
    list.push_back({std::move(table)});
  }
  return Value{std::move(list)};
}

}  // namespace cleave::train
