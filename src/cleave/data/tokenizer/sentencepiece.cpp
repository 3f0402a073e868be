#include "cleave/data/tokenizer/sentencepiece.h"

#include <sentencepiece_processor.h>

#include "cleave/base/check.h"

namespace cleave::data::tokenizer {
namespace {

/// The library itself does the work; it keeps nothing from call to call.
class SentencepieceTokenizer : public Tokenizer {
 public:
  explicit SentencepieceTokenizer(const std::string& path) {
    const auto status = processor_.Load(path);
    require(status.ok(), path, " is no sentencepiece model, or a damaged one; fetch it again");
  }

  std::int64_t vocabulary() const override { return processor_.GetPieceSize(); }
  std::unique_ptr<TextEncoder> encoder() const override;
  std::string decode(std::span<const std::int32_t> tokens, Specials specials) const override;
  std::optional<std::int32_t> id_of(std::string_view name) const override;
  std::optional<std::int32_t> end_token() const override { return or_nothing(processor_.eos_id()); }
  std::optional<std::int32_t> begin_token() const { return or_nothing(processor_.bos_id()); }
  const sentencepiece::SentencePieceProcessor& processor() const { return processor_; }

 private:
  static std::optional<std::int32_t> or_nothing(int id) {
    return id < 0 ? std::nullopt : std::optional<std::int32_t>(id);
  }

  sentencepiece::SentencePieceProcessor processor_;
};

class SentencepieceEncoder : public TextEncoder {
 public:
  explicit SentencepieceEncoder(const SentencepieceTokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  void append(std::string_view text, Framing framing, std::vector<std::int32_t>& tokens) override {
    if (has(framing, Framing::Begin)) {
      if (const auto begin = tokenizer_->begin_token()) tokens.push_back(*begin);
    }
    const auto status = tokenizer_->processor().Encode({text.data(), text.size()}, &ids_);
    require(status.ok(), "sentencepiece refuses the text: ", status.ToString());
    tokens.insert(tokens.end(), ids_.begin(), ids_.end());
  }

 private:
  const SentencepieceTokenizer* tokenizer_;
  std::vector<int> ids_;
};

std::unique_ptr<TextEncoder> SentencepieceTokenizer::encoder() const {
  return std::make_unique<SentencepieceEncoder>(*this);
}

std::string SentencepieceTokenizer::decode(std::span<const std::int32_t> tokens,
                                           Specials specials) const {
  std::vector<int> known;
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= vocabulary()) continue;
    if (specials == Specials::Skip && processor_.IsControl(token)) continue;
    known.push_back(token);
  }
  std::string text;
  const auto status = processor_.Decode(known, &text);
  require(status.ok(), "sentencepiece refuses the tokens: ", status.ToString());
  return text;
}

std::optional<std::int32_t> SentencepieceTokenizer::id_of(std::string_view name) const {
  const int id = processor_.PieceToId({name.data(), name.size()});
  return processor_.IdToPiece(id) == name ? std::optional<std::int32_t>(id) : std::nullopt;
}

}  // namespace

std::unique_ptr<const Tokenizer> open_sentencepiece(const std::string& path) {
  return std::make_unique<SentencepieceTokenizer>(path);
}

}  // namespace cleave::data::tokenizer
