#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_set>

namespace cleave::data::tokenizer {

/// Which characters stand beside each other in some token of a vocabulary.
///
/// No token reaches over two characters that are neighbours in none, so a text may be cut there
/// before it is merged: the same tokens come out, and words come out that a cache has seen before,
/// even for models that get a whole document at once.
class Neighbours {
 public:
  Neighbours();

  /// Adds a token, spelled as characters and, unless `bytes` is empty, as bytes.
  void add(std::string_view text, std::string_view bytes);

  bool meet(char32_t left, char32_t right) const {
    if ((left | right) < 128) return (*ascii_)[left << 7 | right];
    return others_.contains(std::uint64_t{left} << 32 | right);
  }
  bool bytes_meet(unsigned char left, unsigned char right) const {
    return (*bytes_)[left << 8 | right];
  }

 private:
  std::unique_ptr<std::bitset<1 << 14>> ascii_;
  std::unique_ptr<std::bitset<1 << 16>> bytes_;
  std::unordered_set<std::uint64_t> others_;
};

}  // namespace cleave::data::tokenizer
