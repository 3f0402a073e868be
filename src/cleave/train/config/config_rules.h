#pragma once

// The kinds of rule that keys have: each function makes one Key. `at` is a generic lambda that
// finds the key's place in a Config: [](auto& c) -> auto& { return c.train.steps; }.

#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/train/config/config_schema.h"

namespace cleave::train::rules {

inline constexpr std::string_view kAuto = "auto";

template <class T>
const T* as(const Value& value) {
  return std::get_if<T>(&value.is);
}

inline bool is_auto(const Value& value) {
  const auto* text = as<std::string>(value);
  return text != nullptr && *text == kAuto;
}

/// Whole numbers may stand where numbers are wanted.
inline std::optional<double> as_number(const Value& value) {
  if (const auto* i = as<std::int64_t>(value)) return static_cast<double>(*i);
  if (const auto* d = as<double>(value); d != nullptr && std::isfinite(*d)) return *d;
  return std::nullopt;
}

inline bool above_zero(double x) {
  return x > 0;
}
inline bool not_negative(double x) {
  return x >= 0;
}

/// Bounds of a whole number, both included.
struct Whole {
  std::int64_t least = 1;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();

  std::string text() const {
    if (most == std::numeric_limits<std::int64_t>::max()) {
      return detail::concat("a whole number ≥ ", least);
    }
    return detail::concat("a whole number from ", least, " to ", most);
  }
  bool holds(const Value& value) const {
    const auto* i = as<std::int64_t>(value);
    return i != nullptr && *i >= least && *i <= most;
  }
};

template <class At>
Key whole(std::string_view name, Whole bounds, std::string_view help, At at) {
  return {.name = name,
          .rule = bounds.text(),
          .help = help,
          .set =
              [=](Config& config, const Value& value) {
                if (!bounds.holds(value)) return false;
                at(config) = *as<std::int64_t>(value);
                return true;
              },
          .get = [=](const Config& config) -> std::optional<Value> {
            const std::optional<std::int64_t> number = at(config);
            if (!number) return std::nullopt;
            return Value{*number};
          }};
}

template <class At>
Key whole_or_auto(std::string_view name, Whole bounds, std::string_view help, At at) {
  return {.name = name,
          .rule = bounds.text() + " or \"auto\"",
          .help = help,
          .set =
              [=](Config& config, const Value& value) {
                if (!is_auto(value) && !bounds.holds(value)) return false;
                at(config) = is_auto(value) ? Auto() : Auto(*as<std::int64_t>(value));
                return true;
              },
          .get = [=](const Config& config) -> std::optional<Value> {
            const Auto number = at(config);
            return number ? Value{*number} : Value{std::string(kAuto)};
          }};
}

/// A real number for which `holds`.
template <class Holds, class At>
Key number(std::string_view name, std::string rule, Holds holds, std::string_view help, At at) {
  return {.name = name,
          .rule = std::move(rule),
          .help = help,
          .set =
              [=](Config& config, const Value& value) {
                const auto real = as_number(value);
                if (!real || !holds(*real)) return false;
                at(config) = *real;
                return true;
              },
          .get = [=](const Config& config) -> std::optional<Value> { return Value{at(config)}; }};
}

template <class At>
Key boolean(std::string_view name, std::string_view help, At at) {
  return {.name = name,
          .rule = "true or false",
          .help = help,
          .set =
              [=](Config& config, const Value& value) {
                const auto* truth = as<bool>(value);
                if (truth == nullptr) return false;
                at(config) = *truth;
                return true;
              },
          .get = [=](const Config& config) -> std::optional<Value> {
            const std::optional<bool> truth = at(config);
            if (!truth) return std::nullopt;
            return Value{*truth};
          }};
}

/// Any text but none; an empty one in the Config means "not given".
template <class At>
Key text(std::string_view name, std::string rule, std::string_view help, At at) {
  return {.name = name,
          .rule = std::move(rule),
          .help = help,
          .set =
              [=](Config& config, const Value& value) {
                const auto* string = as<std::string>(value);
                if (string == nullptr || string->empty()) return false;
                at(config) = *string;
                return true;
              },
          .get = [=](const Config& config) -> std::optional<Value> {
            if (at(config).empty()) return std::nullopt;
            return Value{at(config)};
          },
          .takes_text = true};
}

template <class E>
using Choices = std::vector<std::pair<std::string_view, E>>;

/// One word of a list; the rule spells the list out.
template <class E, class At>
Key choice(std::string_view name, Choices<E> choices, std::string_view help, At at) {
  std::string rule;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) rule += i + 1 == choices.size() ? " or " : ", ";
    rule += detail::concat('"', choices[i].first, '"');
  }
  return {.name = name,
          .rule = std::move(rule),
          .help = help,
          .set =
              [=](Config& config, const Value& value) {
                for (const auto& [word, meaning] : choices) {
                  const auto* string = as<std::string>(value);
                  if (string == nullptr || *string != word) continue;
                  at(config) = meaning;
                  return true;
                }
                return false;
              },
          .get = [=](const Config& config) -> std::optional<Value> {
            for (const auto& [word, meaning] : choices) {
              if (at(config) == meaning) return Value{std::string(word)};
            }
            return std::nullopt;
          }};
}

/// One element or a list of them. `read` gives std::optional<T> of a Value, `write` the reverse;
/// a list of one is written as its element, an empty one not at all.
template <class Read, class Print, class At>
Key one_or_list(std::string_view name, std::string rule, std::string_view help, At at, Read read,
                Print write) {
  return {.name = name,
          .rule = std::move(rule),
          .help = help,
          .set =
              [=](Config& config, const Value& value) {
                const auto* list = as<Value::List>(value);
                const Value::List elements = list != nullptr ? *list : Value::List{value};
                std::remove_reference_t<decltype(at(config))> result;
                for (const Value& element : elements) {
                  const auto one = read(element);
                  if (!one) return false;
                  result.push_back(*one);
                }
                if (result.empty()) return false;
                at(config) = std::move(result);
                return true;
              },
          .get = [=](const Config& config) -> std::optional<Value> {
            Value::List list;
            for (const auto& one : at(config)) list.push_back(write(one));
            if (list.empty()) return std::nullopt;
            return list.size() == 1 ? list[0] : Value{std::move(list)};
          }};
}

}  // namespace cleave::train::rules
