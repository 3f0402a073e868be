#include "cleave/train/config/config_value.h"

#include <fmt/format.h>

namespace cleave::train {
namespace {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

std::string quoted_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// Shortest text that reads back to the same number and that TOML takes for a float.
std::string float_text(double number) {
  std::string text = fmt::format("{}", number);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string_view type_name(const Value& value) {
  return std::visit(
      Overload{[](bool) { return "a boolean"; }, [](std::int64_t) { return "a whole number"; },
               [](double) { return "a number"; }, [](const std::string&) { return "a string"; },
               [](const Value::List&) { return "a list"; },
               [](const Value::Table&) { return "a table"; },
               [](const Value::Other&) { return "a date or time"; }},
      value.is);
}

}  // namespace

Value::Value() = default;
Value::Value(bool value) : is(value) {}
Value::Value(std::int64_t value) : is(value) {}
Value::Value(double value) : is(value) {}
Value::Value(std::string value) : is(std::move(value)) {}
Value::Value(List value) : is(std::move(value)) {}
Value::Value(Table value) : is(std::move(value)) {}
Value::Value(Other value) : is(std::move(value)) {}
Value::Value(const Value& other) = default;
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) = default;
Value& Value::operator=(Value&& other) noexcept = default;
Value::~Value() = default;

std::string to_toml(const Value& value) {
  const auto list_text = [](const Value::List& list) {
    std::string text = "[";
    for (const Value& element : list) {
      if (text.size() > 1) text += ", ";
      text += to_toml(element);
    }
    return text + "]";
  };
  const auto table_text = [](const Value::Table& table) {
    std::string text = "{";
    for (std::size_t i = 0; i < table.keys.size(); ++i) {
      text += fmt::format("{}{} = {}", i == 0 ? "" : ", ", table.keys[i], to_toml(table.values[i]));
    }
    return text + "}";
  };
  return std::visit(Overload{[](bool b) { return std::string(b ? "true" : "false"); },
                             [](std::int64_t i) { return std::to_string(i); },
                             [](double d) { return float_text(d); },
                             [](const std::string& s) { return quoted_text(s); }, list_text,
                             table_text, [](const Value::Other& other) { return other.text; }},
                    value.is);
}

std::string describe(const Value& value) {
  return fmt::format("{} ({})", to_toml(value), type_name(value));
}

}  // namespace cleave::train
