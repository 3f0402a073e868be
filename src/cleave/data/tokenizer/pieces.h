#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/data/tokenizer/model.h"
#include "cleave/data/tokenizer/regex.h"

namespace cleave::data::tokenizer {

/// A part of a text: an added token, or what still has to become tokens.
struct TextPiece {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int32_t token = -1;  ///< of an added token
  bool at_start = false;    ///< nothing of the original text stands before it

  bool is_token() const { return token >= 0; }
};

/// A text on its way through a tokenizer, and the memory for it. One for each thread.
struct Pieces {
  std::string_view text;
  Spelling spelling = Spelling::Text;
  std::vector<TextPiece> list;
  RegexScratch scratch;
  std::string store;  ///< what `text` shows once it has been rewritten

  std::string_view of(const TextPiece& piece) const {
    return text.substr(piece.begin, piece.end - piece.begin);
  }

  /// Puts other pieces in place of each that is no token: `split(piece, out)` appends them.
  template <class Split>
  void replace(Split split) {
    next_.clear();
    for (const TextPiece& piece : list) {
      if (piece.is_token()) {
        next_.push_back(piece);
      } else {
        split(piece, next_);
      }
    }
    list.swap(next_);
  }

  /// Writes the text of each piece that is no token anew: `write(piece, out)` appends it.
  template <class Write>
  void rewrite(Write write) {
    next_store_.clear();
    for (TextPiece& piece : list) {
      const std::size_t begin = next_store_.size();
      if (!piece.is_token()) write(piece, next_store_);
      piece.begin = begin;
      piece.end = next_store_.size();
    }
    store.swap(next_store_);
    text = store;
  }

  /// Leaves out pieces of which a normalizer has left nothing.
  void drop_empty() {
    std::erase_if(list, [](const TextPiece& p) { return !p.is_token() && p.begin == p.end; });
  }

 private:
  std::vector<TextPiece> next_;
  std::string next_store_;
};

}  // namespace cleave::data::tokenizer
