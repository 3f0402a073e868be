#include "cleave/train/config/codec_form.h"

#include <string>
#include <utility>

#include "cleave/base/codec.h"
#include "cleave/train/config/config_rules.h"

namespace cleave::train {
namespace {

using namespace rules;  // NOLINT(google-build-using-namespace): as in config_schema.cpp

/// The name that the table of codecs has for it; empty: there is none.
std::string codec_in(const Value& value) {
  const auto* name = as<std::string>(value);
  const Codec* codec = name == nullptr ? nullptr : find_codec(*name);
  return codec == nullptr ? "" : std::string(codec->name);
}

}  // namespace

bool set_codec(Config& config, const Value& value) {
  std::string forward = codec_in(value);
  std::string backward = forward;
  if (const auto* table = as<Value::Table>(value)) {
    forward = backward = "none";
    for (std::size_t i = 0; i < table->keys.size(); ++i) {
      if (table->keys[i] != "forward" && table->keys[i] != "backward") return false;
      (table->keys[i] == "forward" ? forward : backward) = codec_in(table->values[i]);
    }
  }
  if (forward.empty() || backward.empty()) return false;
  config.edge.codec = forward;
  config.edge.codec_back = backward;
  return true;
}

std::optional<Value> get_codec(const Config& config) {
  const EdgeConfig& edge = config.edge;
  const bool coded = edge.codec != "none" || edge.codec_back != "none";
  if (!edge.averages() && !(edge.is_split() && coded)) return std::nullopt;
  if (edge.codec == edge.codec_back) return Value{edge.codec};
  Value::Table table;
  table.keys = {"forward", "backward"};
  table.values = {Value{edge.codec}, Value{edge.codec_back}};
  return Value{std::move(table)};
}

}  // namespace cleave::train
