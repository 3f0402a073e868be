#include "cleave/data/tokenizer/neighbours.h"

#include "cleave/data/tokenizer/code_point.h"

namespace cleave::data::tokenizer {

Neighbours::Neighbours()
    : ascii_(std::make_unique<std::bitset<1 << 14>>()),
      bytes_(std::make_unique<std::bitset<1 << 16>>()) {}

void Neighbours::add(std::string_view text, std::string_view bytes) {
  const char* end = text.data() + text.size();
  if (text.empty()) return;
  const char* at = text.data();
  char32_t left = next_code_point(at);
  while (at != end) {
    const char32_t right = next_code_point(at);
    if ((left | right) < 128) {
      ascii_->set(left << 7 | right);
    } else {
      others_.insert(std::uint64_t{left} << 32 | right);
    }
    left = right;
  }
  for (std::size_t i = 1; i < bytes.size(); ++i) {
    bytes_->set(static_cast<unsigned char>(bytes[i - 1]) << 8 |
                static_cast<unsigned char>(bytes[i]));
  }
}

}  // namespace cleave::data::tokenizer
