#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cleave/data/tokenizer/added_tokens.h"
#include "cleave/data/tokenizer/frame.h"
#include "cleave/data/tokenizer/model.h"
#include "cleave/data/tokenizer/normalizer.h"
#include "cleave/data/tokenizer/pre_tokenizer.h"
#include "cleave/data/tokenizer/token_decoder.h"
#include "cleave/data/tokenizer/tokenizer.h"

namespace cleave::data::tokenizer {

/// What a tokenizer.json is made of.
struct PipelineParts {
  Normalizers normalizers;
  AddedTokens added;
  PreTokenizers pre_tokenizers;
  std::unique_ptr<Model> model;
  Frame frame;
  TokenDecoders decoders;
  bool decodes = true;  ///< otherwise tokens are joined with spaces
};

/// Hugging Face's way from text to tokens: added tokens are found, the text between them normalized
/// and cut into words, the model makes tokens of each word, special ones are put around.
class PipelineTokenizer : public Tokenizer {
 public:
  /// The token that ends a document is the one called `end_name`, else one of the usual names.
  PipelineTokenizer(PipelineParts parts, std::string_view end_name);

  std::int64_t vocabulary() const override;
  std::unique_ptr<TextEncoder> encoder() const override;
  std::string decode(std::span<const std::int32_t> tokens, Specials specials) const override;
  std::optional<std::int32_t> id_of(std::string_view name) const override;
  std::optional<std::int32_t> end_token() const override { return end_token_; }

 private:
  PipelineParts parts_;
  std::optional<std::int32_t> end_token_;
};

}  // namespace cleave::data::tokenizer
