#pragma once

#include <string>
#include <string_view>

namespace cleave {

/// Turns bytes that arrive one by one into text that is safe to print. Valid UTF-8 passes, tabs and
/// newlines too; any other byte (no UTF-8, a control character) comes out as "\xNN".
class Utf8Stream {
 public:
  /// What can be printed now. A character that is not complete yet waits for its other bytes.
  std::string add(unsigned char byte);

  /// What still waits, escaped.
  std::string finish();

 private:
  std::string waiting_;
};

/// All of `bytes` at once.
std::string printable(std::string_view bytes);

/// The same as one line: tabs and newlines are escaped too.
std::string printable_line(std::string_view bytes);

/// Control characters are UTF-8 too.
bool is_utf8(std::string_view bytes);

/// `bytes` with U+FFFD in place of every part that is no UTF-8: of a character that is cut, one for
/// all its bytes, as Python and Rust have it.
std::string with_broken_replaced(std::string_view bytes);

}  // namespace cleave
