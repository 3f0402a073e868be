#include "cleave/data/tokenizer/word_cache.h"

#include <algorithm>
#include <utility>

namespace cleave::data::tokenizer {

void WordCache::put(const Slot& slot) {
  std::size_t at = slot.hash & mask();
  while (slots_[at].length != 0) at = (at + 1) & mask();
  slots_[at] = slot;
}

/// Twice as many slots; those of a cache that is as large as it gets are emptied.
void WordCache::make_room() {
  if (slots_.size() == kMostSlots) {
    std::ranges::fill(slots_, Slot());
    bytes_.clear();
    tokens_.clear();
    words_ = 0;
    return;
  }
  const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
  for (const Slot& slot : before)
    if (slot.length != 0) put(slot);
}

void WordCache::add(std::string_view word, std::uint64_t hash,
                    std::span<const std::int32_t> tokens) {
  if (2 * words_ == slots_.size()) make_room();
  put({.hash = hash,
       .word = static_cast<std::uint32_t>(bytes_.size()),
       .tokens = static_cast<std::uint32_t>(tokens_.size()),
       .length = static_cast<std::uint16_t>(word.size()),
       .count = static_cast<std::uint16_t>(tokens.size())});
  bytes_ += word;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ++words_;
}

}  // namespace cleave::data::tokenizer
