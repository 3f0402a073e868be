#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace cleave::app {

/// "layers=24,hidden=1024": the value of each key. Throws UserError, beginning with `flag`, on
/// anything else, on a key that is not `known` and on one that is there twice.
class KeyValues {
 public:
  KeyValues(std::string_view flag, std::string_view text, std::span<const std::string_view> known);

  bool has(std::string_view key) const { return values_.contains(key); }

  /// Throws UserError unless the value is a whole number from 0 on.
  std::int64_t number(std::string_view key, std::int64_t otherwise) const;

  std::string text(std::string_view key, std::string_view otherwise) const;

  /// "true" or "false".
  bool truth(std::string_view key, bool otherwise) const;

 private:
  std::string flag_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace cleave::app
