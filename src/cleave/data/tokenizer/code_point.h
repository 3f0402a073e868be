#pragma once

#include <cstdint>
#include <string>

namespace cleave::data::tokenizer {

/// Bytes of the character that begins with `lead`, in valid UTF-8.
inline int character_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

/// Whether `byte` is one of a character, in valid UTF-8, that begins before it.
inline bool is_within_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

/// The code point at `at` in valid UTF-8; `at` moves past it.
inline char32_t next_code_point(const char*& at) {
  const auto byte = [&](int i) { return static_cast<char32_t>(static_cast<unsigned char>(at[i])); };
  const int length = character_length(*at);
  char32_t code = byte(0);
  if (length == 2) code = (code & 0x1f) << 6 | (byte(1) & 0x3f);
  if (length == 3) code = (code & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
  if (length == 4) {
    code = (code & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f);
  }
  at += length;
  return code;
}

inline void append_code_point(char32_t code, std::string& text) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      add(0xe0 | code >> 12);
    } else {
      add(0xf0 | code >> 18);
      add(0x80 | (code >> 12 & 0x3f));
    }
    add(0x80 | (code >> 6 & 0x3f));
  }
  add(0x80 | (code & 0x3f));
}

/// Unicode's White_Space, which is what Rust trims by.
inline bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

}  // namespace cleave::data::tokenizer
