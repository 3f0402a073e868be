#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/data/chat.h"
#include "cleave/data/tokenizer/tokenizer.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// What data.tokenizer would say of a model: "bytes" if it was trained on them; the tokenizer in
/// the checkpoint's directory or in that of its run, else the config's; empty for a model that was
/// trained on a file of tokens without one.
std::string tokenizer_name(const std::filesystem::path& checkpoint, const Config& config);

/// How the text of a model and its tokens belong together: by a tokenizer, or, for a model that was
/// trained on a file of tokens without one, as numbers: "17 4 251".
class ModelText {
 public:
  /// Reads the tokenizer of tokenizer_name(). Throws UserError if it cannot be read.
  ModelText(const std::filesystem::path& checkpoint, const Config& config);

  /// The tokens of a prompt; of an empty one what a document begins with. Throws UserError for a
  /// token outside the vocabulary, or for what is no list of numbers.
  std::vector<std::int32_t> prompt(std::string_view text, std::int64_t vocabulary) const;

  /// The tokens of a conversation up to where the assistant speaks, as training has them. Throws
  /// UserError if nothing says how conversations become text, or as prompt() does.
  std::vector<std::int32_t> conversation(std::span<const data::ChatMessage> messages,
                                         std::int64_t vocabulary) const;

  /// What ends a turn of the assistant: as text, and as tokens.
  std::string turn_end() const;
  std::vector<std::int32_t> turn_end_tokens() const;

  /// Null: numbers.
  const data::Tokenizer* tokenizer() const { return tokenizer_.get(); }

 private:
  std::vector<std::int32_t> tokens_of(std::string_view text) const;
  const data::ChatTemplate& chat() const;

  std::unique_ptr<const data::Tokenizer> tokenizer_;
  data::ChatTemplate chat_;  ///< without a text for the assistant: there is none
};

/// The bytes of tokens that come one by one.
class ModelTextStream {
 public:
  explicit ModelTextStream(const ModelText& text);

  std::string add(std::int32_t token);
  std::string finish();

 private:
  std::unique_ptr<data::StreamDecoder> decoder_;  // null: numbers
  bool bytes_ = false;
};

}  // namespace cleave::train
