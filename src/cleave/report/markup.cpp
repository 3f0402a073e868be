#include "cleave/report/markup.h"

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

namespace cleave::report {

namespace {

constexpr std::uint32_t kReplacement = 0xfffd;

struct CodePoint {
  std::uint32_t value = kReplacement;
  std::size_t bytes = 1;
};

/// The first code point of `text`, which is not empty. Overlong forms, surrogates and stray bytes
/// are replaced one byte at a time.
CodePoint first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  std::uint32_t value = lead & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xd800 && value < 0xe000;
  if (value < kSmallest[bytes] || surrogate || value > 0x10ffff) return {};
  return {value, bytes};
}

/// Calls `append(code point, its bytes)` over `text`.
template <class Append>
void each_code_point(std::string_view text, const Append& append) {
  while (!text.empty()) {
    const CodePoint point = first_of(text);
    append(point.value, point.value == kReplacement ? "\xef\xbf\xbd" : text.substr(0, point.bytes));
    text.remove_prefix(point.bytes);
  }
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string out;
  each_code_point(text, [&](std::uint32_t point, std::string_view bytes) {
    switch (point) {
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
      default:
        break;
    }
    const bool forbidden =
        (point < 0x20 && point != '\t' && point != '\n') || point == 0xfffe || point == 0xffff;
    out += forbidden ? "\xef\xbf\xbd" : bytes;
  });
  return out;
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  each_code_point(text, [&](std::uint32_t point, std::string_view bytes) {
    if (point == '"' || point == '\\') {
      out += '\\';
      out += bytes;
    } else if (point < 0x20 || point == '<' || point == '>' || point == '&' || point == 0x7f ||
               point == 0x2028 || point == 0x2029) {
      out += fmt::format("\\u{:04x}", point);
    } else {
      out += bytes;
    }
  });
  out += '"';
  return out;
}

}  // namespace cleave::report
