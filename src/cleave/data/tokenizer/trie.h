#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace cleave::data::tokenizer {

/// Byte strings with a number each, found by walking a text byte by byte. All edges lie in one hash
/// table: a vocabulary of 250,000 tokens has a million of them.
class Trie {
 public:
  static constexpr std::uint32_t kRoot = 0;
  static constexpr std::uint32_t kNone = 0xffffffff;

  Trie();

  /// A string that is there already gets the new number.
  void add(std::string_view text, std::uint32_t value);

  /// The node after `byte`, or kNone.
  std::uint32_t next(std::uint32_t node, char byte) const {
    const std::uint64_t key = key_of(node, byte);
    for (std::uint64_t slot = slot_of(key);; slot = (slot + 1) & mask_) {
      if (edges_[slot].key == key) return edges_[slot].child;
      if (edges_[slot].key == kEmpty) return kNone;
    }
  }

  /// The number of the string that ends here, or kNone.
  std::uint32_t value(std::uint32_t node) const { return values_[node]; }

  bool empty() const { return values_.size() == 1; }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  struct Edge {
    std::uint64_t key = kEmpty;
    std::uint32_t child = kNone;
  };

  static std::uint64_t key_of(std::uint32_t node, char byte) {
    return std::uint64_t{node} << 8 | static_cast<unsigned char>(byte);
  }
  std::uint64_t slot_of(std::uint64_t key) const { return key * 0x9e3779b97f4a7c15 >> shift_; }
  void insert(std::uint64_t key, std::uint32_t child);
  void grow();

  std::vector<Edge> edges_;
  std::vector<std::uint32_t> values_;  // by node
  std::uint64_t mask_ = 0;
  int shift_ = 0;
};

}  // namespace cleave::data::tokenizer
