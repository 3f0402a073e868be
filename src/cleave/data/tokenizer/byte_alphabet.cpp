#include "cleave/data/tokenizer/byte_alphabet.h"

#include <array>

#include "cleave/data/tokenizer/code_point.h"

namespace cleave::data::tokenizer {
namespace {

constexpr int kAlphabetEnd = 0x100 + 68;  // 68 bytes are not printable

struct ByteAlphabet {
  std::array<char32_t, 256> character{};
  std::array<int, kAlphabetEnd> byte{};

  constexpr ByteAlphabet() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xff && b != 0xad);
      character[b] = printable ? static_cast<char32_t>(b) : next++;
      byte[character[b]] = b;
    }
  }
};

constexpr ByteAlphabet kAlphabet;

}  // namespace

void append_in_alphabet(std::string_view bytes, std::string& text) {
  for (char byte : bytes) {
    append_code_point(kAlphabet.character[static_cast<unsigned char>(byte)], text);
  }
}

std::optional<std::string> from_alphabet(std::string_view text) {
  std::string bytes;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at != end) {
    const char32_t code = next_code_point(at);
    if (code >= kAlphabetEnd || kAlphabet.byte[code] < 0) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.byte[code]);
  }
  return bytes;
}

}  // namespace cleave::data::tokenizer
