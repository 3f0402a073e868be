#include "cleave/tensor/arena.h"

#include <algorithm>

#include "cleave/base/check.h"

namespace cleave {

Arena::Arena(std::int64_t bytes, Memory& memory, std::int64_t host_bytes)
    : memory_(memory), bytes_(bytes) {
  if (bytes > 0) base_ = memory_.map(bytes, host_bytes);
}

Arena::~Arena() {
  if (base_ != nullptr) memory_.unmap(base_, bytes_);
}

void Arena::acquire(std::int64_t offset, std::int64_t bytes) {
  if (bytes == 0) return;
  CLEAVE_CHECK(offset >= 0 && offset + bytes <= bytes_, "block ", offset, "+", bytes,
               " of an arena of ", bytes_);
  const auto next = std::ranges::upper_bound(live_, offset, {}, &Block::offset);
  if (next != live_.end()) {
    CLEAVE_CHECK(offset + bytes <= next->offset, "block ", offset, "+", bytes, " meets ",
                 next->offset);
  }
  if (next != live_.begin()) {
    const Block& before = *(next - 1);
    CLEAVE_CHECK(before.offset + before.bytes <= offset, "block ", offset, " meets ", before.offset,
                 "+", before.bytes);
  }
  live_.insert(next, {offset, bytes});
  peak_ = std::max(peak_, offset + bytes);
}

void Arena::release(std::int64_t offset) {
  const auto block = std::ranges::lower_bound(live_, offset, {}, &Block::offset);
  CLEAVE_CHECK(block != live_.end() && block->offset == offset, "nothing was acquired at ", offset);
  live_.erase(block);
}

void Arena::give_back_all_but(std::vector<std::span<const std::byte>> used) {
  std::ranges::sort(used, {}, [](std::span<const std::byte> block) { return block.data(); });
  std::byte* from = base_;
  const auto give_back_until = [&](std::byte* end) {
    if (end > from) memory_.give_back({from, end});
  };
  for (const std::span<const std::byte> block : used) {
    give_back_until(base_ + (block.data() - base_));
    from = std::max(from, base_ + (block.data() + block.size() - base_));
  }
  give_back_until(base_ + bytes_);
}

void Arena::reset_peak() {
  peak_ = live_.empty() ? 0 : live_.back().offset + live_.back().bytes;
}

}  // namespace cleave
