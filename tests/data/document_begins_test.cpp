#include "cleave/data/document_begins.h"

#include <vector>

#include "data/packed_numbers.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/data/token_stream.h"

namespace cleave::data {
namespace {

using testing::packed;
using testing::TemporaryDirectory;
using Ids = std::vector<std::int32_t>;

Ids begins_in(const TokenStream& stream, std::int64_t first, std::int64_t count) {
  Ids begins(static_cast<std::size_t>(count), -7);
  stream.read_begins(first, begins);
  return begins;
}

TEST(DocumentBegins, AreCountedFromTheWindowsFirstToken) {
  const std::vector<std::int64_t> starts = {0, 3, 4, 9};
  Ids begins(6);

  begins_from_starts(starts, 2, 0, begins);
  EXPECT_EQ(begins, (Ids{0, 1, 2, 2, 2, 2}));
  begins_from_starts(starts, 0, 10, begins);
  EXPECT_EQ(begins, (Ids{10, 10, 10, 13, 14, 14}));
}

TEST(DocumentBegins, FollowEndTokens) {
  Ids tokens = {5, 9, 9, 1, 2, 9, 3};
  begins_from_ends(9, 0, tokens);
  EXPECT_EQ(tokens, (Ids{0, 0, 2, 3, 3, 3, 6}));
}

TEST(DocumentBegins, AreThoseOfLinesAndFiles) {
  const TemporaryDirectory dir;
  const auto lines = dir.write("a.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"c\"}\n");
  const auto text = dir.write("b.txt", "defg");
  const TokenStream stream({lines, text}, TokenType::Auto, 256);

  stream.check_borders();
  EXPECT_EQ(begins_in(stream, 0, 9), (Ids{0, 0, 0, 3, 3, 5, 5, 5, 5}));
  EXPECT_EQ(begins_in(stream, 1, 6), (Ids{0, 0, 2, 2, 4, 4}));
}

TEST(DocumentBegins, AreThoseOfMegatronsIndex) {
  const TemporaryDirectory dir;
  const std::string head = std::string("MMIDIDX\0\0", 9) + packed<std::uint64_t>({1}) + '\x04' +
                           packed<std::uint64_t>({3, 3});
  // Three sequences of 2, 1 and 2 tokens of four bytes; the first two are one document.
  dir.write("m.idx", head + packed<std::int32_t>({2, 1, 2}) + packed<std::int64_t>({0, 8, 12}) +
                         packed<std::int64_t>({0, 2, 3}));
  const auto bin = dir.write("m.bin", packed<std::uint32_t>({1, 2, 3, 4, 5}));
  const TokenStream stream(bin, TokenType::Auto, 256, {.borders = Borders::Kept});

  stream.check_borders();
  EXPECT_EQ(begins_in(stream, 0, 5), (Ids{0, 0, 0, 3, 3}));
}

}  // namespace
}  // namespace cleave::data
