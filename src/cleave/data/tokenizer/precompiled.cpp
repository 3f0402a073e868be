#include "cleave/data/tokenizer/precompiled.h"

#include <cstring>

#include "cleave/base/check.h"
#include "cleave/base/utf8.h"
#include "cleave/data/tokenizer/code_point.h"

namespace cleave::data::tokenizer {
namespace {

constexpr std::size_t kLongestGrapheme = 5;  // bytes; longer ones are looked up by character

int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

std::string from_base64(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    if (c == '=') break;
    const int digit = base64_digit(c);
    require(digit >= 0, "precompiled_charsmap is not base64");
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) bytes += static_cast<char>(bits >> (count -= 8));
  }
  return bytes;
}

// A unit of the double array (Darts): a label, whether a leaf follows, and where the children are.
std::uint32_t label_of(std::uint32_t unit) {
  return unit & (0x80000000u | 0xffu);
}
bool has_leaf(std::uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
std::uint32_t offset_of(std::uint32_t unit) {
  return unit >> 10 << ((unit & 0x200u) >> 6);
}

}  // namespace

PrecompiledNormalizer::PrecompiledNormalizer(std::string_view base64)
    : grapheme_(Regex::grapheme()) {
  const std::string bytes = from_base64(base64);
  std::uint32_t size = 0;
  if (bytes.size() >= sizeof size) std::memcpy(&size, bytes.data(), sizeof size);
  require(size >= 4 && size % 4 == 0 && size + sizeof size <= bytes.size(),
          "precompiled_charsmap is cut off");
  units_.resize(size / 4);
  std::memcpy(units_.data(), bytes.data() + sizeof size, size);
  replacements_ = bytes.substr(sizeof size + size);
  // What comes after reads characters by their first byte.
  require(is_utf8(replacements_), "precompiled_charsmap has replacements that are not UTF-8");
}

/// For the shortest prefix of `text` that the table has; null if it has none.
const char* PrecompiledNormalizer::replacement(std::string_view text) const {
  std::uint32_t at = offset_of(units_[0]);
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    at ^= byte;
    if (byte == 0 || at >= units_.size() || label_of(units_[at]) != byte) return nullptr;
    const std::uint32_t unit = units_[at];
    at ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    const std::uint32_t place = at < units_.size() ? units_[at] & 0x7fffffffu : 0x7fffffffu;
    if (place >= replacements_.size()) return nullptr;
    require(!is_within_character(replacements_[place]),
            "precompiled_charsmap points into the middle of a character");
    return replacements_.c_str() + place;
  }
  return nullptr;
}

void PrecompiledNormalizer::append_grapheme(std::string_view grapheme, std::string& out) const {
  if (grapheme.size() <= kLongestGrapheme) {
    if (const char* whole = replacement(grapheme)) {
      out += whole;
      return;
    }
  }
  for (std::size_t at = 0; at < grapheme.size();) {
    const std::string_view character =
        grapheme.substr(at, static_cast<std::size_t>(character_length(grapheme[at])));
    const char* other = replacement(character);
    if (other == nullptr) {
      out += character;
    } else {
      out += other;
    }
    at += character.size();
  }
}

void PrecompiledNormalizer::apply(std::string& text, RegexScratch& scratch) const {
  std::string out;
  out.reserve(text.size());
  const auto is_ascii = [&](std::size_t i) { return static_cast<unsigned char>(text[i]) < 0x80; };
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    const bool pair = text[at] == '\r' && end < text.size() && text[end] == '\n';
    if (!is_ascii(at) || pair || (end < text.size() && !is_ascii(end))) {
      const auto match = grapheme_.find(text, at, scratch);
      CLEAVE_CHECK(match && match->begin == at && match->end > at, at);
      end = match->end;
    }
    append_grapheme(std::string_view(text).substr(at, end - at), out);
    at = end;
  }
  text = std::move(out);
}

}  // namespace cleave::data::tokenizer
