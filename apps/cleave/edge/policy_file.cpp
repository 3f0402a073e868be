#include "edge/policy_file.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/base/nearest.h"
#include "cleave/base/units.h"
#include "cleave/train/config/config_value.h"

namespace cleave::app {
namespace {

using edge::Policy;
using train::Entry;
using train::Value;

std::vector<std::string> texts_of(const Entry& entry) {
  std::vector<std::string> texts;
  const auto* list = std::get_if<Value::List>(&entry.value.is);
  for (const Value& value : list != nullptr ? *list : Value::List{entry.value}) {
    const auto* text = std::get_if<std::string>(&value.is);
    require(text != nullptr && !text->empty(), entry.key, " ", entry.place,
            " must be a text, or a list of them");
    texts.push_back(*text);
  }
  return texts;
}

std::string text_in(const Entry& entry) {
  const std::vector<std::string> texts = texts_of(entry);
  require(texts.size() == 1, entry.key, " ", entry.place, " must be one text");
  return texts[0];
}

std::vector<edge::Class> classes_of(const Entry& entry) {
  std::vector<edge::Class> classes;
  for (const std::string& text : texts_of(entry)) {
    const auto what = edge::class_named(text);
    require(what.has_value(), entry.key, " ", entry.place, " has \"", text,
            "\", which is no class; docs/edge.md lists them");
    classes.push_back(*what);
  }
  return classes;
}

std::int64_t whole_of(const Entry& entry) {
  const auto* whole = std::get_if<std::int64_t>(&entry.value.is);
  require(whole != nullptr && *whole >= 1, entry.key, " ", entry.place,
          " must be a whole number above 0");
  return *whole;
}

double real_of(const Entry& entry) {
  if (const auto* real = std::get_if<double>(&entry.value.is); real != nullptr && *real > 0)
    return *real;
  return static_cast<double>(whole_of(entry));
}

/// A key of a policy, and what it sets.
struct PolicyKey {
  std::string_view name;
  void (*set)(Policy& policy, const Entry& entry);
};

constexpr PolicyKey kPolicyKeys[] = {
    {"owner", [](Policy& p, const Entry& e) { p.owner = text_in(e); }},
    {"sends", [](Policy& p, const Entry& e) { p.sends = classes_of(e); }},
    {"to", [](Policy& p, const Entry& e) { p.to = texts_of(e); }},
    {"bytes", [](Policy& p, const Entry& e) { p.bytes = parse_bytes(text_in(e)); }},
    {"steps", [](Policy& p, const Entry& e) { p.steps = whole_of(e); }},
    {"layers", [](Policy& p, const Entry& e) { p.layers = whole_of(e); }},
    {"epsilon", [](Policy& p, const Entry& e) { p.epsilon = real_of(e); }},
};

}  // namespace

Policy read_policy(const std::string& path) {
  Policy policy;
  std::vector<std::string_view> names;
  for (const PolicyKey& key : kPolicyKeys) names.push_back(key.name);
  for (const Entry& entry : train::read_toml(read_text(path), path)) {
    const auto* const key = std::ranges::find(kPolicyKeys, entry.key, &PolicyKey::name);
    require(key != std::end(kPolicyKeys), entry.key, " ", entry.place, " is no key of a policy",
            did_you_mean(entry.key, names));
    key->set(policy, entry);
  }
  require(!policy.owner.empty(), path, " does not say whose policy it is; set owner");
  return policy;
}

}  // namespace cleave::app
