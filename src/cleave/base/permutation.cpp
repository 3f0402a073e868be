#include "cleave/base/permutation.h"

#include <bit>

#include "cleave/base/check.h"

namespace cleave {
namespace {

// Four make a Feistel network pseudo-random; two more cost little beside reading a sequence.
constexpr std::uint32_t kRounds = 6;

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::string_view purpose)
    : size_(size), half_bits_((static_cast<int>(std::bit_width(size - 1)) + 1) / 2) {
  CLEAVE_CHECK(size >= 1, "nothing to permute");
  const auto words = Philox(seed, purpose).block(0);
  key_ = {words[0], words[1]};
}

std::uint64_t Permutation::at(std::uint64_t epoch, std::uint64_t position) const {
  CLEAVE_CHECK(position < size_, position, " of ", size_);
  std::uint64_t value = shuffle(epoch, position);
  while (value >= size_) value = shuffle(epoch, value);
  return value;
}

std::uint64_t Permutation::shuffle(std::uint64_t epoch, std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const auto words = Philox::generate(
        {static_cast<std::uint32_t>(right), round, static_cast<std::uint32_t>(epoch),
         static_cast<std::uint32_t>(epoch >> 32)},
        key_);
    const std::uint64_t mixed = left ^ (words[0] & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

}  // namespace cleave
