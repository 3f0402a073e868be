#pragma once

#include <string>
#include <string_view>

namespace cleave::data::tokenizer {

/// A pattern in Oniguruma's syntax that is read from left to right.
struct PatternText {
  std::string_view pattern;
  bool (*is_script)(std::string_view) = nullptr;  ///< tells names of scripts from other properties
  std::size_t at = 0;

  bool ended() const { return at >= pattern.size(); }
  std::string_view rest() const { return pattern.substr(at); }
  bool next_is(std::string_view text) const { return rest().starts_with(text); }
  char peek() const { return ended() ? '\0' : pattern[at]; }

  /// The pattern for a message: the beginning of a long one.
  std::string shown() const;

  /// Throws UserError: the pattern has something here that PCRE2 has no equal of.
  [[noreturn]] void refuse(std::string_view what) const;

  /// Reads an escape that means the same inside and outside of brackets; gives it as PCRE2 has it.
  std::string character_escape();

 private:
  std::string property();
};

}  // namespace cleave::data::tokenizer
