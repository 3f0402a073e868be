#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/data/tokenizer/normalizer.h"

namespace cleave::data::tokenizer {

/// sentencepiece's table of replacements, as it lies in tokenizer.json: base64 of a double-array
/// trie and the replacements that its leaves point to.
class PrecompiledNormalizer : public Normalizer {
 public:
  /// Throws UserError for what is no such table.
  explicit PrecompiledNormalizer(std::string_view base64);

  /// Throws UserError where the table points into the middle of a character.
  void apply(std::string& text, RegexScratch& scratch) const override;

 private:
  const char* replacement(std::string_view text) const;
  void append_grapheme(std::string_view grapheme, std::string& out) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;  // each ends with a NUL
  Regex grapheme_;
};

}  // namespace cleave::data::tokenizer
