#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cleave::train {

/// A value of a config file, free of the library that read it.
struct Value {
  using List = std::vector<Value>;
  struct Table {  // in a list: {path = "a", weight = 0.7}
    std::vector<std::string> keys;
    List values;
  };
  struct Other {  // a date: nothing that any key takes
    std::string text;
  };

  std::variant<bool, std::int64_t, double, std::string, List, Table, Other> is;

  // Out of line: g++ 12 takes the variant's moves, inlined, for uses of uninitialised memory.
  Value();
  Value(bool value);
  Value(std::int64_t value);
  Value(double value);
  Value(std::string value);
  Value(List value);
  Value(Table value);
  Value(Other value);
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();
};

/// As TOML writes it.
std::string to_toml(const Value& value);

/// `"abc" (a string)`, `[6, 6] (a list)`: for messages.
std::string describe(const Value& value);

/// A key and its value as they were found.
struct Entry {
  std::string key;  ///< dotted
  Value value;
  std::string place;  ///< "at run.toml:7" or "in --set"
  std::string text;   ///< of an override, as typed; empty for a file
};

/// Flattens TOML text to dotted keys, in order of appearance. Throws UserError with file and line.
std::vector<Entry> read_toml(std::string_view text, const std::string& name);

/// An override "a.b=value"; a value that is not TOML is a string. Throws UserError without "=".
Entry read_override(const std::string& text);

}  // namespace cleave::train
