#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::data::tokenizer {

/// Short words with their tokens. It grows with what it knows, so that a sentence costs little;
/// when it is full it begins again: the common words are back soon.
class WordCache {
 public:
  static constexpr std::size_t kLongestWord = 64;  // bytes

  WordCache() : slots_(kFewestSlots) {}

  static std::uint64_t hash(std::string_view word) {
    constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15;
    std::uint64_t value = word.size() * kFactor;
    const char* at = word.data();
    std::size_t left = word.size();
    for (; left >= 8; at += 8, left -= 8) value = mix(value ^ load<std::uint64_t>(at));
    if (left >= 4) {
      value = mix(value ^ load<std::uint32_t>(at) ^
                  std::uint64_t{load<std::uint32_t>(at + left - 4)} << 32);
    } else if (left > 0) {
      const auto byte = [&](std::size_t i) {
        return std::uint64_t{static_cast<unsigned char>(at[i])};
      };
      value = mix(value ^ byte(0) ^ byte(left / 2) << 8 ^ byte(left - 1) << 16);
    }
    return value;
  }

  void add(std::string_view word, std::uint64_t hash, std::span<const std::int32_t> tokens);

  /// Appends the word's tokens; false if it is not known.
  bool append(std::string_view word, std::uint64_t hash, std::vector<std::int32_t>& out) const {
    for (std::size_t at = hash & mask();; at = (at + 1) & mask()) {
      const Slot& slot = slots_[at];
      if (slot.length == 0) return false;
      if (slot.hash == hash && slot.length == word.size() &&
          std::memcmp(bytes_.data() + slot.word, word.data(), word.size()) == 0) {
        out.insert(out.end(), tokens_.begin() + slot.tokens,
                   tokens_.begin() + slot.tokens + slot.count);
        return true;
      }
    }
  }

 private:
  static constexpr std::size_t kFewestSlots = 1 << 6, kMostSlots = 1 << 16;

  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t word = 0;    // place in bytes_
    std::uint32_t tokens = 0;  // place in tokens_
    std::uint16_t length = 0;  // 0: empty
    std::uint16_t count = 0;
  };

  std::size_t mask() const { return slots_.size() - 1; }
  void put(const Slot& slot);
  void make_room();

  template <class T>
  static T load(const char* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static std::uint64_t mix(std::uint64_t x) {
    x *= 0x9e3779b97f4a7c15;
    return x ^ x >> 32;
  }

  std::vector<Slot> slots_;
  std::string bytes_;
  std::vector<std::int32_t> tokens_;
  std::size_t words_ = 0;
};

}  // namespace cleave::data::tokenizer
