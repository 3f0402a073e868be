#include "cleave/data/tokenizer/tokenizer.h"

#include <fstream>
#include <string>
#include <vector>

#include "support/errors.h"
#include "support/paths.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cleave/base/utf8.h"

namespace cleave::data {
namespace {

using cleave::testing::user_error;
using Tokens = std::vector<std::int32_t>;

std::string golden_tokenizer(const std::string& name) {
  return cleave::testing::source_path("tests/golden/tokenizer/" + name);
}

struct GoldenCase {
  std::string text;
  Tokens ids;
  std::string decoded;
};

std::vector<GoldenCase> cases_of(const std::string& name) {
  std::ifstream file(golden_tokenizer(name + ".cases"));
  std::vector<GoldenCase> cases;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    cases.push_back({json["text"], json["ids"], json["decoded"]});
  }
  return cases;
}

std::string stem(std::string name) {
  return name.ends_with(".json") ? name.substr(0, name.size() - 5) : name;
}

/// Each was trained with one family's settings; the cases are what Hugging Face's library says.
class GoldenTokenizer : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<const Tokenizer> tokenizer = open_tokenizer(golden_tokenizer(GetParam()));
  std::vector<GoldenCase> cases = cases_of(stem(GetParam()));
};

TEST_P(GoldenTokenizer, GivesTheTokensOfHuggingFace) {
  ASSERT_GT(cases.size(), 70u);
  const auto encoder = tokenizer->encoder();

  for (const GoldenCase& one : cases) {
    Tokens tokens;
    encoder->append(one.text, Framing::Document, tokens);
    EXPECT_EQ(tokens, one.ids) << one.text;
  }
}

TEST_P(GoldenTokenizer, GivesTheSameTokensWithoutWhatItRemembers) {
  for (const GoldenCase& one : cases) {
    EXPECT_EQ(tokenizer->encode(one.text, Framing::Document), one.ids) << one.text;
  }
}

TEST_P(GoldenTokenizer, GivesTheTextOfHuggingFace) {
  for (const GoldenCase& one : cases) {
    EXPECT_EQ(with_broken_replaced(tokenizer->decode(one.ids, Specials::Skip)), one.decoded);
  }
}

TEST_P(GoldenTokenizer, GivesTheSameTextTokenByToken) {
  for (const GoldenCase& one : cases) {
    StreamDecoder stream(*tokenizer, Specials::Keep);
    std::string text;
    for (const std::int32_t token : one.ids) text += stream.add(token);
    text += stream.finish();

    EXPECT_EQ(text, tokenizer->decode(one.ids, Specials::Keep));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenTokenizer,
                         ::testing::Values("gpt2.json", "llama3.json", "qwen2.json", "falcon.json",
                                           "llama2.json", "mistral.json", "gemma.json", "clip.json",
                                           "t5.json", "unigram.json", "unigram.model",
                                           "bpe.model"));

TEST(ByteLevelTokenizer, RoundTripsEveryCharacterExactly) {
  const auto tokenizer = open_tokenizer(golden_tokenizer("gpt2.json"));
  for (const GoldenCase& one : cases_of("gpt2")) {
    // This token takes the spaces before it, in Hugging Face's library too.
    if (one.text.find("<mask>") != std::string::npos) continue;
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(one.text), Specials::Keep), one.text);
  }
}

TEST(Tokenizers, TakeBrokenUtf8AsReplacementCharacters) {
  const auto tokenizer = open_tokenizer(golden_tokenizer("gpt2.json"));

  // A cut character is one replacement, a stray byte one each: as Python decodes with "replace".
  EXPECT_EQ(tokenizer->encode("a\xe4\xb8z\xff\x80"),
            tokenizer->encode("a\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd"));
}

TEST(Tokenizers, KnowTheTokenThatEndsADocument) {
  const auto gpt2 = open_tokenizer(golden_tokenizer("gpt2.json"));
  EXPECT_EQ(gpt2->end_token(), gpt2->id_of("<|endoftext|>"));
  const auto llama2 = open_tokenizer(golden_tokenizer("llama2.json"));
  EXPECT_EQ(llama2->end_token(), llama2->id_of("</s>"));
  EXPECT_EQ(open_tokenizer("bytes")->end_token(), std::nullopt);
}

std::string with_model(const std::string& rest) {
  return R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]})" +
         rest + "}";
}

TEST(TokenizerJson, IsRefusedByWhatItSays) {
  const auto refusal = [](const std::string& text) {
    return user_error([&] { parse_tokenizer_json(text); });
  };

  EXPECT_EQ(refusal("{}"), "it has no \"model\"");
  EXPECT_EQ(refusal(with_model(R"(, "normalizer": {"type": "Nmt"})")),
            "normalizer \"Nmt\" is not known; known are Sequence, NFC, NFD, NFKC, NFKD, Lowercase, "
            "StripAccents, Strip, Replace, Prepend, ByteLevel, Precompiled");
  EXPECT_EQ(refusal(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}})"),
            "merge 0, \"a b\", is of a token that is not in the vocabulary");
  EXPECT_EQ(refusal(R"({"model": {"type": "BPE", "vocab": {"a": 99999999}, "merges": []}})"),
            "token \"a\" has number 99999999, which must be from 0 to 16777215");
  EXPECT_EQ(refusal(std::string(1000, '[')), "it is nested more than 64 levels deep");
  EXPECT_EQ(refusal("{"), "it is no JSON from byte 2 of 1 on; fetch it again");
  EXPECT_EQ(refusal(R"({"model": {"type": "BPE", "vocab": {}, "merges": []}})"),
            "its vocabulary is empty; fetch it again");
  EXPECT_EQ(refusal(R"({"model": {"type": "BPE", "vocab": {"a": "0"}, "merges": []}})"),
            "it is none that Hugging Face's library has written: type must be number, but is "
            "string; fetch it again");
  EXPECT_EQ(refusal(R"({"model": {"type": "BPE", "vocab": {"a": 1e30}, "merges": []}})"),
            "1e+30 stands where a whole number from -9223372036854775808 to 9223372036854775807 "
            "must");
  EXPECT_EQ(refusal(with_model(R"(, "added_tokens": [{"id": 4294967296, "content": "b"}])")),
            "token \"b\" has number 4294967296, which must be from 0 to 16777215");
  EXPECT_EQ(
      refusal(with_model(R"(, "added_tokens": [{"id": 1.5, "content": "b"}])")),
      "1.5 stands where a whole number from -9223372036854775808 to 9223372036854775807 must");
  EXPECT_EQ(refusal(with_model(R"(, "post_processor": {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                           {"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {}})")),
            "the template of a post_processor has \"<s>\", which is none of its special_tokens");
}

// U+061D came after the edition of Unicode by which Hugging Face's library tells punctuation.
TEST(TokenizerJson, TellsPunctuationByTheEditionOfTheLibrary) {
  const auto tokenizer = parse_tokenizer_json(
      R"({"pre_tokenizer": {"type": "Punctuation", "behavior": "Isolated"},
          "model": {"type": "BPE", "vocab": {"a": 0, ",": 1, "a,": 2, "؝": 3, "a؝": 4},
                    "merges": ["a ,", "a ؝"]}})");

  EXPECT_EQ(tokenizer->encode("a,"), (Tokens{0, 1}));
  EXPECT_EQ(tokenizer->encode("a؝"), (Tokens{4}));
}

/// "\n" is 3 in the model's vocabulary, and an added token with these settings.
std::unique_ptr<const Tokenizer> with_line_token(const std::string& settings) {
  return parse_tokenizer_json(
      R"({"added_tokens": [{"id": 3, "content": "\n", )" + settings +
      R"(}], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "\n": 3}, "merges": []}})");
}

TEST(AddedTokens, ThatTakeWhiteSpaceMeetEachOtherAsInHuggingFacesLibrary) {
  EXPECT_EQ(with_line_token(R"("lstrip": true, "rstrip": true)")->encode("a\n\n\nb"),
            (Tokens{0, 3, 1}));
  EXPECT_EQ(with_line_token(R"("rstrip": true)")->encode("a\n\n\nb"), (Tokens{0, 3, 3, 3, 1}));
  EXPECT_EQ(with_line_token(R"("lstrip": true)")->encode("a\n\n\nb"), (Tokens{0, 3, 3, 3, 1}));
}

TEST(AddedTokens, AreNumberedAndSpelledAsInHuggingFacesLibrary) {
  const auto tokenizer = parse_tokenizer_json(
      R"({"added_tokens": [{"id": 9, "content": "TOK", "normalized": true},
                           {"id": 1, "content": "b"}, {"id": 7, "content": "<x>"}],
          "normalizer": {"type": "Lowercase"}, "decoder": {"type": "Fuse"},
          "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": []}})");

  EXPECT_EQ(tokenizer->encode("aTOK<x>b"), (Tokens{0, 3, 4, 1}));
  EXPECT_EQ(tokenizer->decode(Tokens{3, 4}, Specials::Skip), "tok<x>");
}

TEST(AddedTokens, OfOneSpellingAreTheFirstAndSpecialOnesBeforeOthers) {
  const auto tokenizer = parse_tokenizer_json(
      R"({"added_tokens": [{"id": 2, "content": "Tok", "normalized": true},
                           {"id": 3, "content": "TOK", "normalized": true, "special": true},
                           {"id": 4, "content": "tok", "normalized": true, "special": true}],
          "normalizer": {"type": "Lowercase"},
          "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})");

  EXPECT_EQ(tokenizer->encode("atok"), (Tokens{0, 3}));
}

// Longer than the words that are remembered whole.
TEST(Bpe, WithASuffixTakesALongWordForOne) {
  const auto tokenizer = parse_tokenizer_json(
      R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
          "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "a.": 2, "b.": 3}, "merges": [],
                    "end_of_word_suffix": "."}})");
  std::string text;
  Tokens expected;
  for (int i = 0; i < 99; ++i) {
    text += i % 2 == 0 ? 'a' : 'b';
    expected.push_back(i % 2);
  }
  expected.back() = 2;

  EXPECT_EQ(tokenizer->encode(text), expected);
}

TEST(Bpe, WithByteFallbackAfterBytesHasTokensOfTheirLetters) {
  const auto tokenizer = parse_tokenizer_json(
      R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
          "model": {"type": "BPE", "vocab": {"a": 0, "<0x36>": 1, "<unk>": 2}, "merges": [],
                    "byte_fallback": true, "unk_token": "<unk>"}})");

  EXPECT_EQ(tokenizer->encode("a6"), (Tokens{0, 1}));
}

TEST(Normalizers, ThatLeaveNothingLeaveNoWord) {
  const auto tokenizer = parse_tokenizer_json(
      R"({"normalizer": {"type": "Strip"}, "pre_tokenizer": {"type": "Metaspace"},
          "model": {"type": "BPE", "vocab": {"a": 0, "▁": 1}, "merges": []}})");

  EXPECT_EQ(tokenizer->encode("  "), Tokens{});
  EXPECT_EQ(tokenizer->encode(" a"), (Tokens{1, 0}));
}

TEST(TokenizerJson, OfOldFilesNeedsNoType) {
  const auto tokenizer = parse_tokenizer_json(
      R"({"model": {"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"], "unk_token": ""}})");

  EXPECT_EQ(tokenizer->encode("aabc"), (Tokens{0, 2}));
}

/// Whatever is cut before merging, the tokens are those of merging the whole text.
TEST(Bpe, OfAWholeDocumentEqualsItsWordsOneByOne) {
  const auto tokenizer = open_tokenizer(golden_tokenizer("llama2.json"));
  std::string text;
  for (const GoldenCase& one : cases_of("llama2")) text += one.text;
  const Tokens whole = tokenizer->encode(text);
  const auto encoder = tokenizer->encoder();
  Tokens again;
  encoder->append(text, Framing::None, again);

  EXPECT_EQ(whole, again);
  EXPECT_GT(whole.size(), 1000u);
}

}  // namespace
}  // namespace cleave::data
