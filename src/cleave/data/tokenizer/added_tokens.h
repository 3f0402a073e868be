#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "cleave/data/tokenizer/normalizer.h"
#include "cleave/data/tokenizer/pieces.h"
#include "cleave/data/tokenizer/trie.h"

namespace cleave::data::tokenizer {

/// A token that is found in the text itself, before anything is cut.
struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;  ///< only between characters that are no part of a word
  bool lstrip = false;       ///< takes the white space before it
  bool rstrip = false;
  bool normalized = false;  ///< is looked for after the normalizers, not before
  bool special = false;
  std::string spelled = {};  ///< what decoders get: the content, normalized if `normalized`
};

/// All added tokens of a tokenizer.
class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(std::vector<AddedToken> tokens, const Normalizers& normalizers);

  const std::vector<AddedToken>& all() const { return tokens_; }

  /// Null if `id` is no added token.
  const AddedToken* find(std::int32_t id) const;

  /// Cuts the tokens that are looked for before the normalizers out of the pieces, or the others.
  void extract_raw(Pieces& pieces) const { raw_.extract(pieces, tokens_); }
  void extract_normalized(Pieces& pieces) const { normalized_.extract(pieces, tokens_); }

 private:
  /// Finds the leftmost and of those the longest token.
  struct Matcher {
    Trie trie;  // to the index of a token
    std::array<bool, 256> begins{};

    void add(std::string_view text, std::size_t token);
    void extract(Pieces& pieces, const std::vector<AddedToken>& tokens) const;
    bool find(std::string_view text, std::size_t from, TextPiece& found) const;
  };

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::int32_t, std::size_t> by_id_;
  Matcher raw_;
  Matcher normalized_;
};

}  // namespace cleave::data::tokenizer
