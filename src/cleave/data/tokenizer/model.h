#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "cleave/data/tokenizer/vocabulary.h"

namespace cleave::data::tokenizer {

/// How the words that a model gets are written.
enum class Spelling : std::uint8_t {
  Text,   ///< UTF-8
  Bytes,  ///< any bytes, each of which would be one character of the byte alphabet
};

/// Memory that a model reuses from word to word; one for each thread, made by the model itself.
class ModelScratch {
 public:
  virtual ~ModelScratch() = default;
};

/// The heart of a tokenizer: words to tokens.
class Model {
 public:
  virtual ~Model() = default;

  virtual const Vocabulary& vocabulary() const = 0;
  virtual std::unique_ptr<ModelScratch> scratch() const = 0;

  /// Appends the tokens of `word`, which is not empty.
  virtual void encode(std::string_view word, Spelling spelling, ModelScratch& scratch,
                      std::vector<std::int32_t>& tokens) const = 0;

  /// Length of the first part of `text` whose tokens do not depend on the rest, nor the rest's on
  /// it. Short parts are found again in a cache, so this is where the speed comes from.
  virtual std::size_t independent_prefix(std::string_view text, Spelling) const {
    return text.size();
  }
};

}  // namespace cleave::data::tokenizer
