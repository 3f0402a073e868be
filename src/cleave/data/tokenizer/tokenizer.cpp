#include "cleave/data/tokenizer/tokenizer.h"

namespace cleave::data {
namespace {

constexpr std::string_view kBrokenCharacter = "\xef\xbf\xbd";  // U+FFFD
constexpr std::size_t kLongestCharacter = 4;                   // tokens: one for each byte

}  // namespace

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, Framing framing) const {
  std::vector<std::int32_t> tokens;
  encoder()->append(text, framing, tokens);
  return tokens;
}

/// What the waiting tokens add to the text of those before them.
std::string StreamDecoder::rest(std::string_view shown) const {
  std::vector<std::int32_t> all = shown_;
  all.insert(all.end(), waiting_.begin(), waiting_.end());
  const std::string text = tokenizer_->decode(all, specials_);
  return text.size() > shown.size() ? text.substr(shown.size()) : "";
}

std::string StreamDecoder::add(std::int32_t token) {
  waiting_.push_back(token);
  const std::string text = rest(tokenizer_->decode(shown_, specials_));
  const bool cut = text.ends_with(kBrokenCharacter) && waiting_.size() < kLongestCharacter;
  if (text.empty() || cut) return "";
  shown_ = std::move(waiting_);
  waiting_.clear();
  return text;
}

std::string StreamDecoder::finish() {
  const std::string text = rest(tokenizer_->decode(shown_, specials_));
  waiting_.clear();
  return text;
}

}  // namespace cleave::data
