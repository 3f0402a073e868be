#include "cleave/data/tokenizer/word_cache.h"

#include <algorithm>

namespace cleave::data::tokenizer {

void WordCache::add(std::string_view word, std::uint64_t hash,
                    std::span<const std::int32_t> tokens) {
  if (words_ == kMostWords) {
    std::ranges::fill(slots_, Slot());
    bytes_.clear();
    tokens_.clear();
    words_ = 0;
  }
  std::size_t at = hash & kMask;
  while (slots_[at].length != 0) at = (at + 1) & kMask;
  slots_[at] = {.hash = hash,
                .word = static_cast<std::uint32_t>(bytes_.size()),
                .tokens = static_cast<std::uint32_t>(tokens_.size()),
                .length = static_cast<std::uint16_t>(word.size()),
                .count = static_cast<std::uint16_t>(tokens.size())};
  bytes_ += word;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ++words_;
}

}  // namespace cleave::data::tokenizer
