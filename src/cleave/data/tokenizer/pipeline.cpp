#include "cleave/data/tokenizer/pipeline.h"

#include <algorithm>

#include "cleave/base/utf8.h"
#include "cleave/data/tokenizer/word_cache.h"

namespace cleave::data::tokenizer {
namespace {

class PipelineEncoder : public TextEncoder {
 public:
  explicit PipelineEncoder(const PipelineParts& parts)
      : parts_(&parts), model_memory_(parts.model->scratch()) {}

  void append(std::string_view text, Framing framing, std::vector<std::int32_t>& tokens) override {
    const Frame& frame = parts_->frame;
    if (has(framing, Framing::Begin)) {
      tokens.insert(tokens.end(), frame.before.begin(), frame.before.end());
    }
    if (!is_utf8(text)) {
      repaired_ = with_broken_replaced(text);
      text = repaired_;
    }
    cut(text);
    for (const TextPiece& piece : pieces_.list) {
      if (piece.is_token()) {
        tokens.push_back(piece.token);
      } else {
        append_words(pieces_.of(piece), tokens);
      }
    }
    if (has(framing, Framing::End)) {
      tokens.insert(tokens.end(), frame.after.begin(), frame.after.end());
    }
  }

 private:
  void cut(std::string_view text) {
    pieces_.text = text;
    pieces_.spelling = Spelling::Text;
    pieces_.list.clear();
    if (!text.empty()) pieces_.list.push_back({.end = text.size(), .at_start = true});
    parts_->added.extract_raw(pieces_);
    if (!parts_->normalizers.empty()) {
      pieces_.rewrite([&](const TextPiece& piece, std::string& out) {
        normalized_ = pieces_.of(piece);
        normalize(parts_->normalizers, normalized_, pieces_.scratch);
        out += normalized_;
      });
      pieces_.drop_empty();
    }
    parts_->added.extract_normalized(pieces_);
    for (const auto& step : parts_->pre_tokenizers) step->apply(pieces_);
  }

  void append_words(std::string_view text, std::vector<std::int32_t>& tokens) {
    while (!text.empty()) {
      std::size_t length = text.size();
      if (length > WordCache::kLongestWord) {
        length = parts_->model->independent_prefix(text, pieces_.spelling);
      }
      append_word(text.substr(0, length), tokens);
      text.remove_prefix(length);
    }
  }

  void append_word(std::string_view word, std::vector<std::int32_t>& tokens) {
    const bool is_short = word.size() <= WordCache::kLongestWord;
    const std::uint64_t hash = is_short ? WordCache::hash(word) : 0;
    if (is_short && cache_.append(word, hash, tokens)) return;
    const std::size_t before = tokens.size();
    parts_->model->encode(word, pieces_.spelling, *model_memory_, tokens);
    if (is_short) cache_.add(word, hash, std::span(tokens).subspan(before));
  }

  const PipelineParts* parts_;
  std::unique_ptr<ModelScratch> model_memory_;
  Pieces pieces_;
  WordCache cache_;
  std::string repaired_;
  std::string normalized_;
};

// Those that well-known families end a document with.
constexpr std::string_view kUsualEnds[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>",
                                           "<|im_end|>"};

}  // namespace

PipelineTokenizer::PipelineTokenizer(PipelineParts parts, std::string_view end_name)
    : parts_(std::move(parts)) {
  if (!end_name.empty()) end_token_ = id_of(end_name);
  for (const std::string_view usual : kUsualEnds) {
    if (!end_token_) end_token_ = id_of(usual);
  }
}

std::int64_t PipelineTokenizer::vocabulary() const {
  std::int64_t size = parts_.model->vocabulary().size();
  for (const AddedToken& token : parts_.added.all())
    size = std::max<std::int64_t>(size, token.id + 1);
  return size;
}

std::unique_ptr<TextEncoder> PipelineTokenizer::encoder() const {
  return std::make_unique<PipelineEncoder>(parts_);
}

std::string PipelineTokenizer::decode(std::span<const std::int32_t> tokens,
                                      Specials specials) const {
  RegexScratch scratch;
  std::vector<std::string> names;
  for (const std::int32_t token : tokens) {
    const AddedToken* added = parts_.added.find(token);
    if (added != nullptr && added->special && specials == Specials::Skip) continue;
    const std::string* name =
        added != nullptr ? &added->spelled : parts_.model->vocabulary().token_of(token);
    if (name != nullptr) names.push_back(*name);
  }
  for (const auto& step : parts_.decoders) step->apply(names, scratch);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0 && !parts_.decodes) text += ' ';
    text += names[i];
  }
  return text;
}

std::optional<std::int32_t> PipelineTokenizer::id_of(std::string_view name) const {
  for (const AddedToken& token : parts_.added.all()) {
    if (token.content == name) return token.id;
  }
  return parts_.model->vocabulary().id_of(name);
}

}  // namespace cleave::data::tokenizer
