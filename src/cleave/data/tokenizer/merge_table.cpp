#include "cleave/data/tokenizer/merge_table.h"

#include <algorithm>
#include <bit>

namespace cleave::data::tokenizer {

MergeTable::MergeTable(std::size_t merges)
    : slots_(std::bit_ceil(std::max<std::size_t>(2 * merges, 2))),
      mask_(slots_.size() - 1),
      shift_(64 - std::countr_zero(slots_.size())) {}

void MergeTable::add(std::int32_t left, std::int32_t right, MergeRule rule) {
  const std::uint64_t key = key_of(left, right);
  std::uint64_t slot = slot_of(key);
  while (slots_[slot].key != kEmpty && slots_[slot].key != key) slot = (slot + 1) & mask_;
  slots_[slot] = {key, rule};
}

}  // namespace cleave::data::tokenizer
