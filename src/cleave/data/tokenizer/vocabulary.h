#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cleave::data::tokenizer {

/// Tokens by name and by number.
class Vocabulary {
 public:
  /// A name that is there already gets the new number; so does a number its new name.
  void add(std::string_view token, std::int64_t number);

  std::optional<std::int32_t> id_of(std::string_view token) const;

  /// Null for a number without a token.
  const std::string* token_of(std::int32_t id) const;

  /// One more than the largest number.
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }

  /// "<0x0A>", as sentencepiece and Hugging Face call the token of a byte.
  std::optional<std::int32_t> id_of_byte(unsigned char byte) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };

  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::vector<std::optional<std::string>> tokens_;
};

}  // namespace cleave::data::tokenizer
