#include "cleave/train/generate/model_text.h"

#include <algorithm>
#include <charconv>

#include "cleave/base/check.h"
#include "cleave/train/save/model_files.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

/// What messages call a conversation that comes from no file.
constexpr std::string_view kConversation = "the conversation";

std::vector<std::int32_t> numbers_in(std::string_view text) {
  std::vector<std::int32_t> out;
  const char* end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    if (*at == ' ' || *at == '\n') {
      ++at;
      continue;
    }
    std::int32_t token = 0;
    const auto [next, error] = std::from_chars(at, end, token);
    require(error == std::errc() && (next == end || *next == ' ' || *next == '\n'), "the prompt \"",
            text,
            "\" is no list of tokens; this model has no tokenizer beside it (tokenizer.json or "
            "tokenizer.model), so give numbers like \"17 4 251\"");
    out.push_back(token);
    at = next;
  }
  return out;
}

void check_tokens(std::span<const std::int32_t> tokens, std::int64_t vocabulary) {
  for (const std::int32_t token : tokens) {
    require(token >= 0 && token < vocabulary, "the prompt has token ", token,
            ", and the model's vocabulary ends at ", vocabulary - 1);
  }
}

}  // namespace

std::string tokenizer_name(const fs::path& checkpoint, const Config& config) {
  if (reads_bytes(config)) return "bytes";
  for (const fs::path& directory : {checkpoint, checkpoint.parent_path().parent_path()}) {
    const fs::path found = data::find_tokenizer(directory);
    if (!found.empty()) return found.string();
  }
  if (!config.data.tokenizer.empty()) return config.data.tokenizer;
  // Nobody has trained it here, and only a model of bytes needs no tokenizer.
  return config.data.path.empty() && config.model.vocab == 256 ? "bytes" : "";
}

ModelText::ModelText(const fs::path& checkpoint, const Config& config) : chat_(config.data.chat) {
  const std::string name = tokenizer_name(checkpoint, config);
  if (!name.empty()) tokenizer_ = data::open_tokenizer(name);
  const data::ChatTemplate* known = data::chat_template_of(tokenizer_.get());
  if (chat_.assistant.empty() && known != nullptr) chat_ = *known;
}

const data::ChatTemplate& ModelText::chat() const {
  require(tokenizer_ != nullptr && !chat_.assistant.empty(),
          "nothing says how a conversation becomes text for this model: it was trained without "
          "data.template, and its tokenizer has no tokens for turns; leave out --chat and "
          "--messages");
  return chat_;
}

// Where the assistant's words begin among the tokens depends on them: " Hello" is one token, and
// the space before it stands in the template. What every answer has in common goes before it.
std::vector<std::int32_t> ModelText::conversation(std::span<const data::ChatMessage> messages,
                                                  std::int64_t vocabulary) const {
  const std::string text = data::chat_prompt(messages, chat(), kConversation);
  std::vector<std::int32_t> tokens = tokenizer_->encode(text);
  const std::vector<std::int32_t> answered = tokenizer_->encode(text + "a");
  tokens.erase(std::ranges::mismatch(tokens, answered).in1, tokens.end());
  check_tokens(tokens, vocabulary);
  return tokens;
}

std::string ModelText::turn_end() const {
  return data::chat_turn_end(chat());
}

std::vector<std::int32_t> ModelText::turn_end_tokens() const {
  return tokenizer_->encode(turn_end());
}

std::vector<std::int32_t> ModelText::tokens_of(std::string_view text) const {
  if (tokenizer_ == nullptr) return numbers_in(text);
  // What follows a document, such as an end token, would end it: the model is to go on.
  return tokenizer_->encode(text, data::Framing::Begin);
}

std::vector<std::int32_t> ModelText::prompt(std::string_view text, std::int64_t vocabulary) const {
  std::vector<std::int32_t> tokens = tokens_of(text);
  if (tokens.empty()) {
    const auto newline = tokenizer_ == nullptr ? std::nullopt : tokenizer_->id_of("\n");
    const auto end = tokenizer_ == nullptr ? std::nullopt : tokenizer_->end_token();
    const std::int32_t first = end ? *end : newline.value_or(0);
    tokens.push_back(first < vocabulary ? first : 0);
  }
  check_tokens(tokens, vocabulary);
  return tokens;
}

ModelTextStream::ModelTextStream(const ModelText& text) {
  if (text.tokenizer() == nullptr) return;
  decoder_ = std::make_unique<data::StreamDecoder>(*text.tokenizer(), data::Specials::Skip);
  bytes_ = text.tokenizer()->vocabulary() == 256 && !text.tokenizer()->end_token();
}

std::string ModelTextStream::add(std::int32_t token) {
  // A model may have more tokens than there are bytes.
  if (decoder_ == nullptr || (bytes_ && token > 255)) return detail::concat(' ', token);
  return decoder_->add(token);
}

std::string ModelTextStream::finish() {
  return decoder_ == nullptr ? "" : decoder_->finish();
}

}  // namespace cleave::train
