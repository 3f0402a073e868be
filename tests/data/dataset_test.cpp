#include "cleave/data/dataset.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "support/errors.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/data/token_stream.h"

namespace cleave::data {
namespace {

using cleave::testing::TemporaryDirectory;
using cleave::testing::user_error;

template <class T>
std::string as_text(const std::vector<T>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(T)};
}

std::vector<std::int32_t> all(const TokenStream& stream) {
  std::vector<std::int32_t> tokens(stream.size());
  stream.read(0, tokens);
  return tokens;
}

std::vector<std::int32_t> bytes_of(std::string_view text) {
  return {text.begin(), text.end()};
}

Query query_for(const std::string& path, std::int64_t sequence, std::int64_t batch) {
  return {.config = {.path = {{.path = path}}, .validation = 0.0},
          .vocabulary = 256,
          .sequence = sequence,
          .batch = batch};
}

TEST(TokenStream, ReadsTextAsBytes) {
  const TemporaryDirectory dir;
  const TokenStream stream(dir.write("a.txt", "hi \xc3\xa9"), TokenType::Auto, 256);

  EXPECT_EQ(all(stream), (std::vector<std::int32_t>{'h', 'i', ' ', 0xc3, 0xa9}));
}

TEST(TokenStream, ReadsBinOfBothWidthsByNameAndByKey) {
  const TemporaryDirectory dir;
  const std::vector<std::uint16_t> narrow = {1, 2, 65535};
  const std::vector<std::uint32_t> wide = {7, 70000, 0};
  const std::vector<std::int32_t> narrow_tokens = {1, 2, 65535};
  const std::vector<std::int32_t> wide_tokens = {7, 70000, 0};

  const auto a = dir.write("a.bin", as_text(narrow));
  const auto b = dir.write("b.u32.bin", as_text(wide));
  const auto c = dir.write("c.bin", as_text(wide));
  EXPECT_EQ(all(TokenStream(a, TokenType::Auto, 100000)), narrow_tokens);
  EXPECT_EQ(all(TokenStream(b, TokenType::Auto, 100000)), wide_tokens);
  EXPECT_EQ(all(TokenStream(c, TokenType::U32, 100000)), wide_tokens);
}

TEST(TokenStream, JoinsTheTextFilesOfADirectoryInOrderOfTheirPaths) {
  const TemporaryDirectory dir;
  dir.write("b.txt", "B");
  dir.write("a/z.md", "Z");
  std::string expected(100'000, 'x');  // large enough to be mapped
  dir.write("a/y/x.cpp", expected);
  dir.write("c", "C");
  dir.write("empty.txt", "");
  dir.write(".hidden", "h");
  dir.write(".git/config", "g");
  dir.write("tokens.bin", "tt");
  dir.write("picture.png", std::string("P\0NG", 4));
  dir.write("large.o", std::string(100'000, '\0'));

  const TokenStream stream(dir.path(), TokenType::Auto, 256);

  expected += "ZBC";
  EXPECT_EQ(all(stream), bytes_of(expected));
}

TEST(Data, LeavesOutWhatRunsHaveWritten) {
  const TemporaryDirectory dir;
  dir.write("a.txt", "aaaa");
  dir.write("link/b.txt", "bbbb");
  dir.write("out/step.html", "later");
  dir.write("earlier/config.toml", "earlier");
  dir.write("earlier/checkpoints/note", "earlier");
  dir.write("z/config.toml", "zzzz");
  Query query = query_for(dir.path().string(), 4, 1);
  query.leave_out = (dir.path() / "link" / ".." / "out").string();

  EXPECT_EQ(Data(query).training().windows(), 2);  // a.txt, b.txt and z/config.toml
  query.leave_out = query.config.path[0].path + "/.";
  EXPECT_EQ(user_error([&] { Data{query}; }),
            "data.path " + query.config.path[0].path +
                " is train.out too, where this run writes; choose another train.out");
}

TEST(TokenStream, ReadsAcrossTheBordersOfFiles) {
  const TemporaryDirectory dir;
  for (char letter : std::string("KJIHGFEDCBAONML")) {
    dir.write({letter, '.', 't'}, std::string(1, letter));
  }
  const TokenStream stream(dir.path(), TokenType::Auto, 256);

  std::vector<std::int32_t> tokens(5);
  stream.read(10, tokens);

  EXPECT_EQ(tokens, bytes_of("KLMNO"));
}

TEST(TokenStream, SaysWhatIsWrongWithTheData) {
  const TemporaryDirectory dir;
  const auto refused = [](const std::filesystem::path& path) {
    return user_error([&] { TokenStream(path, TokenType::Auto, 256); });
  };
  const std::string at = dir.path().string();

  EXPECT_EQ(refused(""),
            "data.path is missing; set it to a text file, a directory of text or a .bin of tokens");
  EXPECT_EQ(refused(dir.path() / "none"),
            "cannot read data.path " + at +
                "/none: No such file or directory; set it to a text file, a directory of text or a "
                ".bin of tokens");
  EXPECT_EQ(refused(dir.write("empty.txt", "")),
            at + "/empty.txt is empty; give a file with at least one sequence");
  EXPECT_EQ(refused(dir.path()), at +
                                     " has no text in it; give a directory with text files, or one "
                                     ".bin file of tokens");
  EXPECT_EQ(refused(dir.write("odd.bin", "abc")),
            at + "/odd.bin has 3 bytes, which is no whole number of 2-byte tokens; it was cut off, "
                 "or data.dtype is not its type");
  EXPECT_EQ(
      refused(dir.path() / "empty.txt" / "below"),
      "cannot read data.path " + at +
          "/empty.txt/below: Not a directory; set it to a text file, a directory of text or a "
          ".bin of tokens");
  EXPECT_EQ(refused("/dev/null"),
            "cannot read data.path /dev/null: it is neither a file nor a directory; set it to a "
            "text file, a directory of text or a .bin of tokens");
}

TEST(TokenStream, NamesTheTokenOutsideTheVocabularyWhenReadingIt) {
  const TemporaryDirectory dir;
  const auto path = dir.write("a.bin", as_text(std::vector<std::uint16_t>{1, 2, 300, 4}));
  const TokenStream stream(path, TokenType::Auto, 300);
  std::vector<std::int32_t> tokens(2);
  stream.read(0, tokens);

  EXPECT_EQ(user_error([&] { stream.read(1, tokens); }),
            path +
                " has token 300 at position 2, but model.vocab is 300; set model.vocab to at "
                "least 301, or check data.dtype");
}

TEST(Data, ChecksTheVocabularyBeforeTheRun) {
  const TemporaryDirectory dir;
  Query query = query_for(dir.write("a.txt", "hello world"), 4, 1);
  query.vocabulary = 115;

  EXPECT_EQ(user_error([&] { Data{query}; }),
            query.config.path[0].path +
                " has token 119 at position 6, but model.vocab is 115; set model.vocab to at "
                "least 120 (256 for bytes)");
}

TEST(Data, NeedsOneWholeSequence) {
  const TemporaryDirectory dir;
  EXPECT_NO_THROW(Data(query_for(dir.write("a.txt", "12345"), 4, 1)));
  EXPECT_EQ(user_error([&] { Data(query_for(dir.write("a.txt", "1234"), 4, 1)); }),
            (dir.path() / "a.txt").string() +
                " has 4 tokens, but one sequence needs train.sequence + 1 = 5; give more data or "
                "shorten the sequence");
}

TEST(Data, ShiftsTargetsByOne) {
  const TemporaryDirectory dir;
  const Data data(query_for(dir.write("a.txt", "abcdefghi"), 4, 1));
  std::vector<std::int32_t> x(4), y(4);

  data.training().read_window(1, x, y);

  EXPECT_EQ(x, bytes_of("efgh"));
  EXPECT_EQ(y, bytes_of("fghi"));
  EXPECT_EQ(data.training().windows(), 2);
}

TEST(Data, VisitsEveryWindowOncePerEpochAcrossBatches) {
  const TemporaryDirectory dir;
  const Data data(query_for(dir.write("a.txt", std::string(7 * 4 + 1, 'x')), 4, 3));
  std::vector<std::int64_t> order;
  for (std::int64_t step = 0; step < 14; ++step) {
    for (std::int64_t i = 0; i < 3; ++i) order.push_back(data.training().window(step, i));
  }

  for (int epoch = 0; epoch < 6; ++epoch) {
    std::vector<std::int64_t> seen(order.begin() + epoch * 7, order.begin() + epoch * 7 + 7);
    std::ranges::sort(seen);
    EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
  }
  EXPECT_FALSE(std::equal(order.begin(), order.begin() + 7, order.begin() + 7));
}

TEST(Data, DependsOnTheSeedAndOnNothingElse) {
  const TemporaryDirectory dir;
  Query query = query_for(dir.write("a.txt", std::string(1000, 'x')), 4, 2);
  const std::int64_t window = Data(query).training().window(5, 1);
  EXPECT_EQ(Data(query).training().window(5, 1), window);

  std::set<std::int64_t> seen;
  for (query.seed = 1; query.seed < 10; ++query.seed) {
    seen.insert(Data(query).training().window(5, 1));
  }
  EXPECT_GT(seen.size(), 5u);
}

TEST(Data, HoldsTheEndOutForValidation) {
  const TemporaryDirectory dir;
  Query query = query_for(dir.write("a.txt", std::string(40, 'a') + std::string(11, 'b')), 5, 1);
  query.config.validation = 0.2;
  const Data data(query);
  std::vector<std::int32_t> x(5), y(5);

  ASSERT_NE(data.validation(), nullptr);
  EXPECT_EQ(data.training().windows(), 8);
  EXPECT_EQ(data.validation()->windows(), 2);
  data.validation()->read_window(0, x, y);
  EXPECT_EQ(x, bytes_of("bbbbb"));
}

TEST(Data, TakesValidationFromAPathOfItsOwn) {
  const TemporaryDirectory dir;
  Query query = query_for(dir.write("a.txt", std::string(40, 'a')), 5, 1);
  EXPECT_EQ(Data(query).validation(), nullptr);

  query.config.validation = dir.write("v.txt", "0123456789abc");
  const Data data(query);
  EXPECT_EQ(data.training().windows(), 7);
  EXPECT_EQ(data.validation()->windows(), 2);

  query.config.validation = (dir.path() / "none").string();
  EXPECT_EQ(user_error([&] { Data{query}; }),
            "cannot read data.validation " + (dir.path() / "none").string() +
                ": No such file or directory; set it to a text file, a directory of text or a .bin "
                "of tokens");
}

TEST(Data, OfAnotherOwnerIsKnownByWhatItAnnounces) {
  const TemporaryDirectory dir;
  Query query = query_for(dir.write("a.txt", std::string(41, 'a')), 4, 2);
  query.config.path = {{query.config.path[0].path, 1},
                       {dir.write("b.txt", std::string(81, 'b')), 1}};
  query.config.validation = 0.2;
  const Data whole(query);
  EXPECT_EQ(whole.announce(1), (Announced{20, 4, whole.announce(1).digest}));

  query.elsewhere = {std::nullopt, whole.announce(1)};
  query.config.path[1].path = "nowhere";
  const Data apart(query);

  EXPECT_EQ(apart.digest(), whole.digest());
  EXPECT_EQ(apart.training().source_windows(), (std::vector<std::int64_t>{8, 16}));
  EXPECT_EQ(apart.held_out(), (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(apart.training().targets(24), whole.training().targets(24));
  for (std::int64_t step = 0; step < 20; ++step)
    EXPECT_EQ(apart.training().window(step, 1), whole.training().window(step, 1));
  std::vector<std::int32_t> x(4), y(4);
  apart.training().read_window(7, x, y);
  EXPECT_THROW(apart.training().read_window(8, x, y), InternalError);
}

TEST(Data, WarnsOfAValidationThatHoldsNothingOut) {
  const TemporaryDirectory dir;
  Query query = query_for(dir.write("a.txt", std::string(40, 'a')), 20, 1);
  EXPECT_EQ(validation_warning(Data(query), query), "") << "none was asked for";

  query.config.validation = 0.5;
  EXPECT_EQ(validation_warning(Data(query), query),
            "data.validation 0.5 of 1 sequences is 0, and a microbatch has 1: there is no "
            "validation; give more data or shorten train.sequence");
  query.sequence = 4;
  EXPECT_EQ(validation_warning(Data(query), query), "");
  query.microbatch = 5;
  EXPECT_EQ(validation_warning(Data(query), query),
            "data.validation 0.5 of 9 sequences is 4, and a microbatch has 5: there is no "
            "validation; give more data or shorten train.sequence");
}

}  // namespace
}  // namespace cleave::data
