#include "cleave/data/tokenizer/train_bpe.h"

#include <numeric>

#include "support/errors.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cleave/data/tokenize.h"
#include "cleave/data/tokenizer/byte_level_json.h"
#include "cleave/data/tokenizer/tokenizer.h"

namespace cleave::data {
namespace {

using cleave::testing::user_error;

TEST(TrainBpe, MergesTheMostFrequentPairFirst) {
  WordCounter counter("gpt2");
  counter.add("low low low lower newest newest newest newest");
  const auto json = nlohmann::json::parse(
      train_bpe(counter.counts(), {.vocabulary = 262, .special_tokens = {"<|endoftext|>"}}));

  // "we" occurs in four times " newest" and once in " lower"; then of the pairs that occur four
  // times the one with the smallest bytes goes first.
  const auto merges = json["model"]["merges"];
  ASSERT_EQ(merges.size(), 5u);
  EXPECT_EQ(merges[0], (nlohmann::json::array({"w", "e"})));
  EXPECT_EQ(merges[1], (nlohmann::json::array({"e", "we"})));
  EXPECT_EQ(json["model"]["vocab"]["<|endoftext|>"], 0);
  EXPECT_EQ(json["model"]["vocab"].size(), 262u);
}

TEST(TrainBpe, GivesATokenizerThatShortensAndRoundTrips) {
  WordCounter counter("gpt4");
  const std::string text = "The cat sat on the mat. The cat sat on the mat, 123 times.\n";
  for (int i = 0; i < 5; ++i) counter.add(text);
  const auto tokenizer = parse_tokenizer_json(train_bpe(counter.counts(), {.vocabulary = 300}));
  const auto tokens = tokenizer->encode(text + "Žluťoučký 猫 \xff");

  EXPECT_LT(tokenizer->encode(text).size(), text.size() / 2);
  EXPECT_EQ(tokenizer->decode(tokens, Specials::Keep), text + "Žluťoučký 猫 \xef\xbf\xbd");
}

TEST(BytesJson, GivesEveryByteItsNumber) {
  const auto tokenizer = parse_tokenizer_json(tokenizer::bytes_json());
  const std::string text = "A b\n\t  \x01 Žluťoučký 猫 🙂\r\n";
  std::vector<std::int32_t> every(256);
  std::iota(every.begin(), every.end(), 0);

  EXPECT_EQ(tokenizer->vocabulary(), 256);
  EXPECT_EQ(tokenizer->encode(text), open_tokenizer("bytes")->encode(text));
  EXPECT_EQ(tokenizer->decode(every, Specials::Keep),
            open_tokenizer("bytes")->decode(every, Specials::Keep));
  EXPECT_EQ(tokenizer->end_token(), std::nullopt);
}

TEST(TrainBpe, RefusesAVocabularyWithoutRoomForBytes) {
  EXPECT_EQ(
      user_error([] { train_bpe({}, {.vocabulary = 256}); }),
      "a vocabulary of 256 has no room for 256 bytes and the special tokens; ask for at least "
      "257");
}

TEST(ParallelTokenizer, GivesTheSameTokensOnAnyNumberOfThreads) {
  WordCounter counter("gpt2");
  std::string text;
  for (int i = 0; i < 60'000; ++i) {
    text += "word" + std::to_string(i % 977) + (i % 13 == 0 ? " end\nNext" : " ");
    if (i % 101 == 0) text += "  \n ";
  }
  counter.add(text);
  const auto tokenizer = parse_tokenizer_json(train_bpe(counter.counts(), {.vocabulary = 400}));
  const std::vector<std::string_view> documents = {text, "", "short", text};
  const auto end = tokenizer->end_token();
  std::int64_t bytes = 0;
  const auto one = ParallelTokenizer(*tokenizer, {.threads = 1, .end_token = end})
                       .encode(documents, [&](std::int64_t more) { bytes += more; });
  const auto three =
      ParallelTokenizer(*tokenizer, {.threads = 3, .end_token = end}).encode(documents);

  std::vector<std::int32_t> whole = tokenizer->encode(text, Framing::Document);
  whole.push_back(*end);
  EXPECT_EQ(one, three);
  EXPECT_EQ(one[0], whole);
  EXPECT_EQ(one[1], std::vector<std::int32_t>{*end});
  EXPECT_EQ(bytes, static_cast<std::int64_t>(2 * text.size() + 5));
}

}  // namespace
}  // namespace cleave::data
