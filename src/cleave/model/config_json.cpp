#include "cleave/model/config_json.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/shallow_json.h"
#include "cleave/model/silent_keys.h"

namespace cleave::model {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// As all sizes of models are, far below where products of two of them overflow; a larger one would
/// wrap around where a number of 64 bits has no room for it.
constexpr double kLargestWhole = 0x1p31;

std::optional<std::int64_t> whole_of(const json& value) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (std::floor(number) != number || std::abs(number) >= kLargestWhole) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

bool says_nothing(const json& value) {
  return value.is_null() || value == false || value == 0 || value == 0.0 || value == "" ||
         ((value.is_array() || value.is_object()) && value.empty());
}

}  // namespace

struct ConfigJson::Object {
  json root;
  std::string file;
  std::set<std::string, std::less<>> read;

  const json* find(std::string_view key) {
    read.emplace(key);
    const auto found = root.find(key);
    return found == root.end() || found->is_null() ? nullptr : &*found;
  }

  const json& get(std::string_view key) {
    const json* value = find(key);
    require(value != nullptr, file, " has no \"", key,
            "\"; cleave needs it to know the model, so add it or use another directory");
    return *value;
  }

  /// Throws UserError unless `ok`.
  void need(bool ok, std::string_view key, const json& value, std::string_view what) const {
    require(ok, file, " has \"", key, "\": ", value.dump(), ", but ", what,
            " must stand there; correct it or use another directory");
  }
};

ConfigJson::ConfigJson(std::shared_ptr<Object> object) : object_(std::move(object)) {}

ConfigJson::ConfigJson(const std::string& text, std::string file)
    : object_(std::make_shared<Object>()) {
  object_->file = std::move(file);
  try {
    object_->root = parse_shallow<json>(text);
  } catch (const std::exception&) {
    object_->root = nullptr;
  }
  require(object_->root.is_object(), object_->file,
          " is no JSON object; it must be the config.json of a Hugging Face model");
}

bool ConfigJson::has(std::string_view key) const {
  return object_->find(key) != nullptr;
}

bool ConfigJson::mentions(std::string_view key) const {
  return object_->root.contains(key);
}

std::int64_t ConfigJson::whole(std::string_view key, std::optional<std::int64_t> otherwise) const {
  if (otherwise && !has(key)) return *otherwise;
  const json& value = object_->get(key);
  const std::optional<std::int64_t> whole = whole_of(value);
  object_->need(whole.has_value(), key, value, "a whole number below 2^31");
  return *whole;
}

double ConfigJson::number(std::string_view key, std::optional<double> otherwise) const {
  if (otherwise && !has(key)) return *otherwise;
  const json& value = object_->get(key);
  object_->need(value.is_number() && std::isfinite(value.get<double>()), key, value, "a number");
  return value.get<double>();
}

bool ConfigJson::truth(std::string_view key, std::optional<bool> otherwise) const {
  if (otherwise && !has(key)) return *otherwise;
  const json& value = object_->get(key);
  object_->need(value.is_boolean(), key, value, "true or false");
  return value.get<bool>();
}

std::string ConfigJson::text(std::string_view key, std::optional<std::string> otherwise) const {
  if (otherwise && !has(key)) return *otherwise;
  const json& value = object_->get(key);
  object_->need(value.is_string(), key, value, "a string");
  return value.get<std::string>();
}

std::vector<std::string> ConfigJson::texts(std::string_view key) const {
  const json& value = object_->get(key);
  const bool strings = value.is_array() && std::ranges::all_of(value, &json::is_string);
  object_->need(strings, key, value, "a list of strings");
  return value.get<std::vector<std::string>>();
}

std::vector<std::int64_t> ConfigJson::wholes(std::string_view key) const {
  const json& value = object_->get(key);
  const bool numbers = value.is_array() && std::ranges::all_of(value, [](const json& one) {
                         return one.is_boolean() || whole_of(one);
                       });
  object_->need(numbers, key, value, "a list of whole numbers below 2^31");
  std::vector<std::int64_t> out;
  for (const json& one : value) out.push_back(one.is_boolean() ? one.get<bool>() : *whole_of(one));
  return out;
}

std::optional<ConfigJson> ConfigJson::table(std::string_view key) const {
  const json* value = object_->find(key);
  if (value == nullptr) return std::nullopt;
  object_->need(value->is_object(), key, *value, "an object");
  if (value->empty()) return std::nullopt;
  auto inner = std::make_shared<Object>();
  inner->root = *value;
  inner->file = object_->file + " (" + std::string(key) + ")";
  return ConfigJson(std::move(inner));
}

std::int64_t ConfigJson::entries(std::string_view key) const {
  const json* value = object_->find(key);
  if (value == nullptr) return 0;
  object_->need(value->is_object(), key, *value, "an object");
  return std::ssize(*value);
}

void ConfigJson::pass_over(std::string_view key) const {
  object_->find(key);
}

void ConfigJson::refuse(std::string_view key, std::string_view rule) const {
  const auto found = object_->root.find(key);
  const std::string value = found == object_->root.end() ? "null" : found->dump();
  throw UserError(detail::concat(object_->file, " has \"", key, "\": ", value, ", but ", rule,
                                 "; use another checkpoint"));
}

void ConfigJson::refuse_if_true(std::string_view key, std::string_view rule) const {
  if (truth(key, false)) refuse(key, rule);
}

void ConfigJson::finish() const {
  for (const auto& [key, value] : object_->root.items()) {
    if (object_->read.contains(key) || says_nothing_of_the_model(key)) continue;
    // A null is what a missing key is.
    if (is_true_by_default(key) ? value == true || value.is_null() : says_nothing(value)) continue;
    throw UserError(detail::concat(object_->file, " has \"", key, "\": ", value.dump(),
                                   ", which cleave does not know; take the key out if the model "
                                   "does not depend on it"));
  }
}

struct ConfigJsonText::Object {
  ordered_json root = ordered_json::object();
};

ConfigJsonText::ConfigJsonText() : object_(std::make_unique<Object>()) {}
ConfigJsonText::~ConfigJsonText() = default;

void ConfigJsonText::set(std::string_view key, std::int64_t value) {
  object_->root[std::string(key)] = value;
}
void ConfigJsonText::set(std::string_view key, double value) {
  object_->root[std::string(key)] = value;
}
void ConfigJsonText::set(std::string_view key, bool value) {
  object_->root[std::string(key)] = value;
}
void ConfigJsonText::set(std::string_view key, const std::string& value) {
  object_->root[std::string(key)] = value;
}
void ConfigJsonText::set(std::string_view key, const std::vector<std::string>& value) {
  object_->root[std::string(key)] = value;
}
void ConfigJsonText::set(std::string_view key, const std::vector<std::int64_t>& value) {
  object_->root[std::string(key)] = value;
}
void ConfigJsonText::set(std::string_view key, const ConfigJsonText& value) {
  object_->root[std::string(key)] = value.object_->root;
}
void ConfigJsonText::set_null(std::string_view key) {
  object_->root[std::string(key)] = nullptr;
}
bool ConfigJsonText::empty() const {
  return object_->root.empty();
}
std::string ConfigJsonText::text() const {
  return object_->root.dump(2) + "\n";
}

}  // namespace cleave::model
