#include "cleave/data/tokenizer/tokenizer.h"

namespace cleave::data {
namespace {

constexpr std::string_view kBrokenCharacter = "\xef\xbf\xbd";  // U+FFFD
constexpr std::size_t kLongestWait = 64;                       // tokens

}  // namespace

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, Framing framing) const {
  std::vector<std::int32_t> tokens;
  encoder()->append(text, framing, tokens);
  return tokens;
}

/// What the waiting tokens add to the text of those before them; nothing if that text is not what
/// it was: a byte token may break the character before it until its own is whole.
std::string StreamDecoder::rest() const {
  std::vector<std::int32_t> all = shown_;
  all.insert(all.end(), waiting_.begin(), waiting_.end());
  const std::string shown = tokenizer_->decode(shown_, specials_);
  const std::string text = tokenizer_->decode(all, specials_);
  return text.starts_with(shown) ? text.substr(shown.size()) : "";
}

std::string StreamDecoder::add(std::int32_t token) {
  waiting_.push_back(token);
  std::string text = rest();
  const bool cut = text.ends_with(kBrokenCharacter) && waiting_.size() < kLongestWait;
  if (text.empty() || cut) return "";
  shown_ = std::move(waiting_);
  waiting_.clear();
  return text;
}

std::string StreamDecoder::finish() {
  std::string text = rest();
  if (text.empty()) text = tokenizer_->decode(waiting_, specials_);
  waiting_.clear();
  return text;
}

}  // namespace cleave::data
