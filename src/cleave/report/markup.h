#pragma once

#include <string>
#include <string_view>

namespace cleave::report {

/// `text` as XML character data or attribute value; control characters that XML forbids, and bytes
/// that are not UTF-8, become U+FFFD.
std::string xml_escaped(std::string_view text);

/// `text` as a JSON string with its quotes. Safe inside <script> too: `<`, `>`, `&` and the line
/// separators of JavaScript are escaped.
std::string json_quoted(std::string_view text);

}  // namespace cleave::report
