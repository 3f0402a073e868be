#include "cleave/base/hash.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

namespace cleave {
namespace {

std::vector<std::byte> counted_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * i >> 3);
  return bytes;
}

// Long pieces are added with whatever vectors the processor has, short ones and whole inputs with
// those that all have.
TEST(Hash, IsThatOfTheWholeHoweverItIsAdded) {
  for (const std::size_t size : {1, 1023, 1024, 1025, 5000, 300'000}) {
    const std::vector<std::byte> bytes = counted_bytes(size);
    for (const std::size_t piece : {7, 1024, 1031, 65'536}) {
      Hasher hasher;
      for (std::size_t at = 0; at < size; at += piece)
        hasher.add(std::span(bytes).subspan(at, std::min(piece, size - at)));
      EXPECT_EQ(hasher.digest(), hash_of(bytes)) << size << " B in pieces of " << piece;
    }
  }
}

TEST(Hash, IsTheSameOnEveryProcessor) {
  EXPECT_EQ(to_hex(hash_of({})), "2d06800538d394c2");
  Hasher hasher;
  hasher.add(counted_bytes(100'000));
  EXPECT_EQ(to_hex(hasher.digest()), "de7b34649650c701");
}

}  // namespace
}  // namespace cleave
