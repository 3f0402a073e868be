#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cleave::data::tokenizer {

/// An escape of Oniguruma's that stands for a class, such as \s, \W or \p{L}.
struct EscapedClass {
  std::size_t length = 0;  ///< of the escape, with its backslash
  bool negated = false;
  std::string inside;  ///< what it stands for, as PCRE2 has it inside of brackets
};

/// The class whose escape `text` begins with; nothing if PCRE2 has the same, or if it is none.
std::optional<EscapedClass> escaped_class(std::string_view text);

/// What \w stands for inside of brackets.
std::string word_class();

/// What "[:name:]" stands for inside of brackets; nothing if it is not known.
std::optional<std::string> posix_class(std::string_view name);

}  // namespace cleave::data::tokenizer
