#include "cleave/base/wrap.h"

#include <algorithm>

namespace cleave {
namespace {

/// Characters of UTF-8 text, each of which takes a column.
std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](unsigned char byte) { return (byte & 0xc0) != 0x80; }));
}

/// The next word of `text`, taken off it: up to a blank, or up to a comma if it fills a line alone.
std::string_view take_word(std::string_view& text, std::size_t room) {
  std::string_view word = text.substr(0, text.find(' '));
  if (columns_of(word) > room) {
    const std::size_t comma = word.rfind(',', room - 1);
    if (comma != word.npos) word = word.substr(0, comma + 1);
  }
  text.remove_prefix(word.size());
  return word;
}

}  // namespace

std::string wrap(std::string_view text, std::size_t indent, std::size_t columns) {
  std::string out;
  std::size_t column = indent;
  bool blank = false;  // before the next word
  while (!text.empty()) {
    const std::string_view word = take_word(text, columns - indent);
    const std::size_t width = columns_of(word) + (blank ? 1 : 0);
    if (column > indent && column + width > columns) {
      out += '\n' + std::string(indent, ' ');
      column = indent + columns_of(word);
    } else {
      if (blank) out += ' ';
      column += width;
    }
    out += word;
    blank = text.starts_with(' ');
    if (blank) text.remove_prefix(1);
  }
  return out + '\n';
}

}  // namespace cleave
