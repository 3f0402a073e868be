#include "cleave/data/tokenizer/vocabulary.h"

#include "cleave/base/check.h"

namespace cleave::data::tokenizer {
namespace {

// Far more than any tokenizer has; a file that asks for more memory than this is not one.
constexpr std::int32_t kMostTokens = 1 << 24;

}  // namespace

void Vocabulary::add(std::string_view token, std::int64_t number) {
  require(number >= 0 && number < kMostTokens, "token \"", token, "\" has number ", number,
          ", which must be from 0 to ", kMostTokens - 1);
  const auto id = static_cast<std::int32_t>(number);
  ids_.insert_or_assign(std::string(token), id);
  if (id >= size()) tokens_.resize(static_cast<std::size_t>(id) + 1);
  tokens_[id] = token;
}

std::optional<std::int32_t> Vocabulary::id_of(std::string_view token) const {
  const auto at = ids_.find(token);
  return at == ids_.end() ? std::nullopt : std::optional(at->second);
}

const std::string* Vocabulary::token_of(std::int32_t id) const {
  if (id < 0 || id >= size() || !tokens_[id]) return nullptr;
  return &*tokens_[id];
}

std::optional<std::int32_t> Vocabulary::id_of_byte(unsigned char byte) const {
  constexpr const char* kDigits = "0123456789ABCDEF";
  const char name[] = {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
  return id_of({name, sizeof name});
}

}  // namespace cleave::data::tokenizer
