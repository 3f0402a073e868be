// What a tokenizer.json may not say.

#include <cstdint>
#include <string>
#include <vector>

#include "support/errors.h"
#include <gtest/gtest.h>

#include "cleave/data/tokenizer/tokenizer.h"

namespace cleave::data {
namespace {

using testing::user_error;

/// What is said of a sound BPE model beside `part`.
std::string refused_with(const std::string& part) {
  return user_error([&] {
    parse_tokenizer_json(
        R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}, )" +
        part + "}");
  });
}

TEST(RefusedTokenizer, HasNoListWhereOneMustBe) {
  EXPECT_EQ(refused_with(R"("pre_tokenizer": {"type": "Sequence", "pretokenizers": {}})"),
            "\"pretokenizers\" must be a list");
  EXPECT_EQ(refused_with(R"("normalizer": {"type": "Sequence", "normalizers": 3})"),
            "\"normalizers\" must be a list");
  EXPECT_EQ(refused_with(R"("decoder": {"type": "Sequence", "decoders": null})"),
            "\"decoders\" must be a list");
  EXPECT_EQ(refused_with(R"("added_tokens": {})"), "\"added_tokens\" must be a list");
  EXPECT_EQ(
      user_error([] {
        parse_tokenizer_json(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": null}})");
      }),
      "\"merges\" must be a list");
}

TEST(RefusedTokenizer, HasATextWhereACharacterMustBe) {
  EXPECT_EQ(refused_with(R"("pre_tokenizer": {"type": "Metaspace", "replacement": "ab"})"),
            "\"replacement\" is \"ab\", which must be one character");
  EXPECT_EQ(refused_with(R"("pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": ""})"),
            "\"delimiter\" is \"\", which must be one character");
  EXPECT_EQ(refused_with(R"("decoder": {"type": "Strip", "content": "▁", "start": -1, "stop": 0})"),
            "\"start\" of a Strip is -1, which must be 0 or more");
}

TEST(RefusedTokenizer, PutsNoTokenAroundATextThatIsNone) {
  const auto frame = [](const std::string& id, const std::string& text) {
    return R"("post_processor": {"type": "TemplateProcessing", "pair": [], "single": [
                {"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": ")" +
           text + R"(", "type_id": 0}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [)" +
           id + R"(], "tokens": ["<s>"]}}})";
  };
  EXPECT_EQ(refused_with(frame("-5", "A")),
            "token \"<s>\" has number -5, which must be from 0 to 16777215");
  EXPECT_EQ(refused_with(frame("1", "B")),
            "the template of a post_processor for one text has a second one");
  EXPECT_EQ(refused_with(R"("post_processor": {"type": "BertProcessing", "sep": ["a", -1],
                             "cls": ["b", 1]})"),
            "token \"a\" has number -1, which must be from 0 to 16777215");
}

/// A BPE model behind a sentencepiece table (four units of a double array, then the replacements)
/// and what reads characters by their first byte.
std::string behind_table(const std::string& base64) {
  return R"({"model": {"type": "BPE", "vocab": {"é": 0, "b": 1}, "merges": []}, "normalizer":
      {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, {"type": "Precompiled",
      "precompiled_charsmap": ")" +
         base64 + R"("}, {"type": "Lowercase"}]}})";
}

TEST(RefusedTokenizer, ReplacesCharactersByHalves) {
  // "a" by "é"
  const auto sound = parse_tokenizer_json(behind_table("EAAAAACAAQBhCQAAAAAAAAAAAIDDqQA="));
  EXPECT_EQ(sound->encode("Ab"), (std::vector<std::int32_t>{0, 1}));

  // "a" by a byte that begins a character of four, and by the second byte of "é"
  EXPECT_EQ(
      user_error([] { parse_tokenizer_json(behind_table("EAAAAACAAQBhCQAAAAAAAAAAAIDwAA==")); }),
      "precompiled_charsmap has replacements that are not UTF-8");
  const auto halves = parse_tokenizer_json(behind_table("EAAAAACAAQBhCQAAAAAAAAEAAIDDqQA="));
  EXPECT_EQ(user_error([&] { halves->encode("ba"); }),
            "precompiled_charsmap points into the middle of a character");
}

TEST(RefusedTokenizer, IsOfAnotherVersion) {
  EXPECT_EQ(refused_with(R"("version": "2.0")"),
            "it is of version 2.0, and cleave reads version 1.0");
}

// Forty times twice as long, or a long text for each character.
TEST(RefusedTokenizer, MakesTextsThatNoMemoryHolds) {
  const auto replace = [](const std::string& by) {
    return R"({"type": "Replace", "pattern": {"String": "a"}, "content": ")" + by + "\"}";
  };
  std::string doubled = replace("aa");
  for (int i = 1; i < 40; ++i) doubled += ", " + replace("aa");
  for (const std::string& steps : {doubled, replace(std::string(10'000, 'b'))}) {
    const auto tokenizer = parse_tokenizer_json(
        R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
            "normalizer": {"type": "Sequence", "normalizers": [)" +
        steps + "]}}");
    const std::string said = user_error([&] { tokenizer->encode(std::string(5000, 'a')); });
    EXPECT_NE(
        said.find("bytes of 5000 before it cuts them, more than 64 times as many; use another "
                  "tokenizer"),
        std::string::npos)
        << said;
  }
}

}  // namespace
}  // namespace cleave::data
