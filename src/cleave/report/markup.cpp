#include "cleave/report/markup.h"

#include <fmt/format.h>

#include "cleave/base/utf8.h"

namespace cleave::report {
namespace {

/// Calls `append(its bytes)` for every character of `text`; U+FFFD stands for what is no UTF-8.
template <class Append>
void each_character(std::string_view text, const Append& append) {
  const std::string sound = with_broken_replaced(text);
  for (std::size_t first = 0; first < sound.size();) {
    std::size_t end = first + 1;
    while (end < sound.size() && (static_cast<unsigned char>(sound[end]) & 0xc0) == 0x80) ++end;
    append(std::string_view(sound).substr(first, end - first));
    first = end;
  }
}

/// Of one byte that no text should have but as its own escape.
bool is_control(std::string_view character) {
  return static_cast<unsigned char>(character[0]) < 0x20;
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string out;
  each_character(text, [&](std::string_view character) {
    switch (character[0]) {
      case '&':
        out += "&amp;";
        return;
      case '<':
        out += "&lt;";
        return;
      case '>':
        out += "&gt;";
        return;
      case '"':
        out += "&quot;";
        return;
      case '\'':
        out += "&#39;";
        return;
      case '\t':
      case '\n':
        out += character;
        return;
      default:
        break;
    }
    const bool forbidden =
        is_control(character) || character == "\xef\xbf\xbe" || character == "\xef\xbf\xbf";
    out += forbidden ? "\xef\xbf\xbd" : character;
  });
  return out;
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  each_character(text, [&](std::string_view character) {
    const char first = character[0];
    if (first == '"' || first == '\\') {
      out += '\\';
      out += first;
    } else if (is_control(character) || first == '<' || first == '>' || first == '&' ||
               first == '\x7f') {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(first));
    } else if (character == "\xe2\x80\xa8" || character == "\xe2\x80\xa9") {
      out += character.back() == '\xa8' ? "\\u2028" : "\\u2029";  // they end lines of a script
    } else {
      out += character;
    }
  });
  out += '"';
  return out;
}

}  // namespace cleave::report
