#include "cleave/data/tokenizer/pattern_text.h"

#include <algorithm>

#include "cleave/base/check.h"

namespace cleave::data::tokenizer {
namespace {

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

std::string PatternText::shown() const {
  constexpr std::size_t kLongest = 200;
  if (pattern.size() <= kLongest) return std::string(pattern);
  std::size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(pattern[end]) & 0xc0) == 0x80) --end;
  return std::string(pattern.substr(0, end)) + "…";
}

void PatternText::refuse(std::string_view what) const {
  throw UserError(detail::concat("the pattern ", shown(), " has ", what, " at byte ", at,
                                 ", which cleave does not read; use another tokenizer"));
}

std::string PatternText::character_escape() {
  const std::string_view text = rest();
  const char c = text.size() > 1 ? text[1] : '\0';
  if (c == 'p' || c == 'P') return property();
  if (c == 'v') {  // a class in PCRE2
    at += 2;
    return "\\x{b}";
  }
  if (c == 'u' && text.size() >= 6 && std::ranges::all_of(text.substr(2, 4), is_hex)) {
    at += 6;
    return detail::concat("\\x{", text.substr(2, 4), "}");
  }
  if (c == 'x' && text.size() > 3 && text[2] >= '8' && is_hex(text[2]) && is_hex(text[3]))
    refuse("a byte of a character");
  std::size_t length = std::min<std::size_t>(2, text.size());
  if (text.starts_with("\\x{")) length = std::min(text.find('}'), text.size() - 1) + 1;
  while (length < text.size() && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80)
    ++length;
  at += length;
  return std::string(text.substr(0, length));
}

/// PCRE2 takes a script's name for its extensions too, unless it is told otherwise.
std::string PatternText::property() {
  const std::size_t end = rest().find('}');
  if (end == std::string_view::npos || rest()[2] != '{') refuse("a property without a name");
  std::string_view name = rest().substr(3, end - 3);
  const std::string kind(rest().substr(0, 3));
  at += end + 1;
  const bool negated = name.starts_with('^');
  if (negated) name.remove_prefix(1);
  const bool script = name.size() > 2 && is_script(name);
  return detail::concat(kind, negated ? "^" : "", script ? "sc:" : "", name, "}");
}

}  // namespace cleave::data::tokenizer
