#pragma once

#include <cstdint>
#include <vector>

#include "cleave/data/documents.h"
#include "cleave/data/tokenizer/tokenizer.h"

namespace cleave::data {

/// What documents become, one after another.
struct TextTokens {
  std::vector<std::uint32_t> tokens;  ///< with kUntrained where nothing is to be predicted
  std::vector<std::int64_t> starts;   ///< [document] its first token
};

/// Tokenizes on all cores. With a tokenizer the end token follows every document, without one a
/// newline.
TextTokens tokens_of(const Documents& documents, const Tokenizer* tokenizer);

}  // namespace cleave::data
