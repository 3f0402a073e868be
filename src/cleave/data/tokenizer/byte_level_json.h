#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cleave::data::tokenizer {

/// Byte-level BPE, as a tokenizer.json says it.
struct ByteLevelBpe {
  std::vector<std::string> names;  ///< [token], in the alphabet of bytes
  std::vector<std::pair<std::string, std::string>> merges = {};
  std::string words = {};  ///< regular expression that text is cut by first; empty: it is not
  std::vector<std::string> special_tokens = {};  ///< the first tokens
};

/// A tokenizer.json that Hugging Face's library loads too.
std::string byte_level_json(const ByteLevelBpe& bpe);

/// The tokenizer "bytes": every byte of a text is the token of its number.
std::string bytes_json();

}  // namespace cleave::data::tokenizer
