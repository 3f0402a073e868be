#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "cleave/data/tokenizer/model.h"
#include "cleave/data/tokenizer/trie.h"

namespace cleave::data::tokenizer {

struct UnigramParts {
  std::vector<std::pair<std::string, double>> tokens;  ///< with their log probabilities
  std::optional<std::int32_t> unk_id;
  bool byte_fallback = false;
};

/// Unigram language model: of all ways to cut a word into tokens, the one of the highest sum of log
/// probabilities, added from left to right in f64 as Hugging Face does, so that ties fall alike.
class Unigram : public Model {
 public:
  /// Throws UserError for an unknown token that is none of the tokens.
  explicit Unigram(UnigramParts parts);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::unique_ptr<ModelScratch> scratch() const override;
  /// Throws UserError for a character without a token if there is no unknown token either.
  void encode(std::string_view word, Spelling spelling, ModelScratch& scratch,
              std::vector<std::int32_t>& tokens) const override;

 private:
  struct Scratch;

  void find_best(std::string_view word, Scratch& scratch) const;
  void add_unknown(std::string_view text, std::vector<std::int32_t>& tokens) const;

  UnigramParts parts_;
  Vocabulary vocabulary_;
  Trie trie_;
  double unknown_score_;
};

}  // namespace cleave::data::tokenizer
