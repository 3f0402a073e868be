#pragma once

#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cleave/data/tokenizer/merge_table.h"
#include "cleave/data/tokenizer/model.h"
#include "cleave/data/tokenizer/neighbours.h"

namespace cleave::data::tokenizer {

/// What a BPE model is made of, under the names of tokenizer.json.
struct BpeParts {
  Vocabulary vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;  ///< by rank
  std::optional<std::string> unk_token;
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
};

/// Byte-pair encoding: a word begins as its characters (or bytes), and of all neighbours that have
/// a merge, the one of lowest rank is merged, the leftmost first, until none is left.
class Bpe : public Model {
 public:
  /// Throws UserError for merges and unknown tokens that the vocabulary does not have.
  explicit Bpe(BpeParts parts);

  const Vocabulary& vocabulary() const override { return parts_.vocabulary; }
  std::unique_ptr<ModelScratch> scratch() const override;
  void encode(std::string_view word, Spelling spelling, ModelScratch& scratch,
              std::vector<std::int32_t>& tokens) const override;
  std::size_t independent_prefix(std::string_view text, Spelling spelling) const override;

 private:
  struct Scratch;

  void add_merges();
  void add_symbols();
  std::int32_t symbol(char32_t code) const;
  std::optional<std::int32_t> whole_word(std::string_view word, Spelling spelling) const;
  void begin_with_bytes(std::string_view word, Scratch& scratch) const;
  void begin_with_characters(std::string_view word, Scratch& scratch) const;
  void add_unknown(Scratch& scratch) const;
  void merge_short(Scratch& scratch) const;
  void merge_long(Scratch& scratch) const;
  void queue(Scratch& scratch, std::int32_t at) const;

  BpeParts parts_;
  MergeTable merges_;
  Neighbours neighbours_;
  std::optional<std::int32_t> unknown_;
  std::array<std::int32_t, 256> byte_symbol_{};    // of the byte alphabet; -1: none
  std::array<std::int32_t, 256> byte_fallback_{};  // "<0x0A>"; -1: none
  std::array<std::int32_t, 128> ascii_symbol_{};
  std::unordered_map<char32_t, std::int32_t> symbols_;   // of other characters
  std::unordered_map<std::string, std::int32_t> words_;  // in bytes, where merges are ignored
};

}  // namespace cleave::data::tokenizer
