#include "cleave/base/utf8.h"

#include <cstdint>
#include <cstring>
#include <utility>

namespace cleave {
namespace {

enum class Form { Character, Prefix, Neither };

bool is_continuation(unsigned char byte) {
  return (byte & 0xc0) == 0x80;
}

std::size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  if (first >= 0xf0 && first < 0xf5) return 4;
  return 0;
}

/// Whether the second byte makes an overlong form, a surrogate or a number past U+10FFFF.
bool second_is_wrong(unsigned char first, unsigned char second) {
  return (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
         (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
}

Form form_of(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const std::size_t length = length_of(at(0));
  if (length == 0 || bytes.size() > length) return Form::Neither;
  for (std::size_t i = 1; i < bytes.size(); ++i) {
    if (!is_continuation(at(i)) || (i == 1 && second_is_wrong(at(0), at(1)))) return Form::Neither;
  }
  return bytes.size() < length ? Form::Prefix : Form::Character;
}

/// Whether a whole character is one that a terminal should not get.
bool is_control(std::string_view character) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) {
    return (at(0) < 0x20 && at(0) != '\n' && at(0) != '\t') || at(0) == 0x7f;
  }
  return character.size() == 2 && at(0) == 0xc2 && at(1) < 0xa0;
}

std::string escaped(std::string_view bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += "\\x";
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

/// Length of the ASCII that `bytes` begin with, in steps of eight bytes and then of one.
std::size_t ascii_prefix(std::string_view bytes) {
  std::size_t length = 0;
  for (std::uint64_t eight = 0; length + sizeof eight <= bytes.size(); length += sizeof eight) {
    std::memcpy(&eight, bytes.data() + length, sizeof eight);
    if ((eight & 0x8080808080808080) != 0) break;
  }
  while (length < bytes.size() && static_cast<unsigned char>(bytes[length]) < 0x80) ++length;
  return length;
}

}  // namespace

std::string Utf8Stream::add(unsigned char byte) {
  waiting_.push_back(static_cast<char>(byte));
  switch (form_of(waiting_)) {
    case Form::Prefix:
      return {};
    case Form::Character:
      return is_control(waiting_) ? finish() : std::exchange(waiting_, {});
    case Form::Neither:
      break;
  }
  if (waiting_.size() == 1 || is_continuation(byte)) return finish();
  // The byte may begin a character of its own.
  waiting_.pop_back();
  const std::string text = finish();
  return text + add(byte);
}

std::string Utf8Stream::finish() {
  return escaped(std::exchange(waiting_, {}));
}

std::string printable(std::string_view bytes) {
  Utf8Stream stream;
  std::string text;
  for (char byte : bytes) text += stream.add(static_cast<unsigned char>(byte));
  return text + stream.finish();
}

std::string printable_line(std::string_view bytes) {
  std::string line;
  for (const char c : printable(bytes))
    line += c == '\n' || c == '\t' ? escaped({&c, 1}) : std::string(1, c);
  return line;
}

bool is_utf8(std::string_view bytes) {
  std::size_t length = 0;
  for (; !bytes.empty(); bytes.remove_prefix(length)) {
    length = ascii_prefix(bytes);
    if (length > 0) continue;
    length = length_of(static_cast<unsigned char>(bytes[0]));
    if (length == 0 || form_of(bytes.substr(0, length)) != Form::Character) return false;
  }
  return true;
}

std::string with_broken_replaced(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t ascii = ascii_prefix(bytes);
    text += bytes.substr(0, ascii);
    bytes.remove_prefix(ascii);
    if (bytes.empty()) break;
    std::size_t length = 1;
    while (length < bytes.size() && form_of(bytes.substr(0, length)) == Form::Prefix &&
           form_of(bytes.substr(0, length + 1)) != Form::Neither) {
      ++length;
    }
    const std::string_view part = bytes.substr(0, length);
    text += form_of(part) == Form::Character ? part : "\xef\xbf\xbd";
    bytes.remove_prefix(length);
  }
  return text;
}

}  // namespace cleave
