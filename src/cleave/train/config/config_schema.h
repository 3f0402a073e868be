#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cleave/train/config/config.h"
#include "cleave/train/config/config_value.h"

namespace cleave::train {

/// Of cleave: keys without another note are there since then.
inline constexpr std::string_view kFirstVersion = "0.1";

/// All that is known of one key. Parsing, messages, printing and help are driven by this alone.
struct Key {
  std::string_view name;  ///< "train.steps"
  std::string rule;       ///< "a whole number ≥ 0"
  std::string_view help;

  /// False, with `config` unchanged, if the value breaks the rule.
  std::function<bool(Config& config, const Value& value)> set;

  /// Nothing if the key is not given and has no default.
  std::function<std::optional<Value>(const Config& config)> get;

  bool takes_text = false;    ///< any text: an override is taken as typed
  bool takes_lists = false;   ///< unless it is a list
  bool takes_tables = false;  ///< a table is one value, not keys of its own

  /// What holds if the key is not given, where that is no constant: "model.heads".
  std::string_view otherwise = {};

  std::string_view example = {};  ///< a value as TOML writes it; empty: the default is one

  std::string_view since = kFirstVersion;  ///< the version that brought it

  /// Part of the layout: with another number of devices "auto" finds another value, and no bit of
  /// the result changes.
  bool of_layout = false;

  std::string_view section() const { return name.substr(0, name.rfind('.')); }      ///< "train"
  std::string_view short_name() const { return name.substr(name.rfind('.') + 1); }  ///< "steps"

  /// The key with these: `whole(…).with({.otherwise = "model.heads"})`.
  struct Notes {
    std::string_view otherwise = {};
    std::string_view example = {};
    std::string_view since = kFirstVersion;
    bool of_layout = false;
  };
  Key with(const Notes& notes) &&;
};

/// What holds if the key is not given: a value as TOML writes it, or words.
std::string default_of(const Key& key);

/// A value that the key takes, as TOML writes it.
std::string example_of(const Key& key);

/// Every key, by section, in the order that help and --print-config show.
std::span<const Key> config_keys();

/// Throws UserError that suggests the nearest key.
const Key& find_key(const Entry& entry);

/// Puts the entry's value into its place. Throws UserError that states the rule.
void apply(const Entry& entry, Config& config);

}  // namespace cleave::train
