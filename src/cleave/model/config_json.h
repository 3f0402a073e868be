#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::model {

/// What a config.json says, read key by key. It remembers what was asked for: a key that nobody
/// read may mean anything, so that finish() refuses it. A null counts as a key that is not there.
class ConfigJson {
 public:
  /// Throws UserError if `text`, the content of `file`, is not a JSON object.
  ConfigJson(const std::string& text, std::string file);

  bool has(std::string_view key) const;
  /// Whether the key stands there, be it with a null.
  bool mentions(std::string_view key) const;

  // The value of a key, or `otherwise`; without one it must be there. Throw UserError if it is not,
  // or of another kind.
  std::int64_t whole(std::string_view key, std::optional<std::int64_t> otherwise = {}) const;
  double number(std::string_view key, std::optional<double> otherwise = {}) const;
  bool truth(std::string_view key, std::optional<bool> otherwise = {}) const;
  std::string text(std::string_view key, std::optional<std::string> otherwise = {}) const;
  std::vector<std::string> texts(std::string_view key) const;
  std::vector<std::int64_t> wholes(std::string_view key) const;

  /// An object inside this one, which counts as read; nothing if it is not there or empty.
  std::optional<ConfigJson> table(std::string_view key) const;

  /// How many entries an object has; 0 if it is not there.
  std::int64_t entries(std::string_view key) const;

  /// Counts a key as read that says nothing about the model.
  void pass_over(std::string_view key) const;

  /// Throws UserError: the key has a value that cleave does not do. `rule` says what it does.
  [[noreturn]] void refuse(std::string_view key, std::string_view rule) const;

  /// Refuses a key that is true.
  void refuse_if_true(std::string_view key, std::string_view rule) const;

  /// Refuses what nobody asked for. Keys that say nothing about the model, and values that say
  /// nothing (null, false, zero, empty), pass.
  void finish() const;

 private:
  struct Object;
  explicit ConfigJson(std::shared_ptr<Object> object);

  std::shared_ptr<Object> object_;
};

/// A config.json in the making; keys stay in the order in which they were set.
class ConfigJsonText {
 public:
  ConfigJsonText();
  ~ConfigJsonText();

  void set(std::string_view key, std::int64_t value);
  void set(std::string_view key, double value);
  void set(std::string_view key, bool value);
  void set(std::string_view key, const std::string& value);
  void set(std::string_view key, const std::vector<std::string>& value);
  void set(std::string_view key, const std::vector<std::int64_t>& value);
  void set(std::string_view key, const ConfigJsonText& value);
  void set_null(std::string_view key);
  bool empty() const;

  std::string text() const;

 private:
  struct Object;
  std::unique_ptr<Object> object_;
};

}  // namespace cleave::model
