#include "cleave/data/tokenizer/regex.h"

#include "support/errors.h"
#include <gtest/gtest.h>

#include "cleave/data/tokenizer/normalizer.h"

namespace cleave::data::tokenizer {
namespace {

struct OnigurumaCase {
  const char* pattern;
  const char* text;
  const char* replaced;  ///< what Hugging Face's library makes of it with "‡" for every match
};

class OnigurumaPatterns : public ::testing::TestWithParam<OnigurumaCase> {};

TEST_P(OnigurumaPatterns, MatchAsInHuggingFacesLibrary) {
  std::string text = GetParam().text;
  RegexScratch scratch;

  replace_all(text, Regex(GetParam().pattern), "‡", scratch);

  EXPECT_EQ(text, GetParam().replaced) << GetParam().pattern;
}

// The right column is tokenizers.normalizers.Replace(Regex(pattern), "‡").normalize_str(text) of
// tokenizers 0.23.3.
INSTANTIATE_TEST_SUITE_P(
    Classes, OnigurumaPatterns,
    ::testing::Values(OnigurumaCase{R"([\p{L}&&[^\p{Han}]]+)", "ab漢字cd、e", "‡漢字‡、‡"},
                      OnigurumaCase{R"(\p{Han}+)", "漢、字。々", "‡、‡。‡"},
                      OnigurumaCase{R"([a-z[0-9]]+)", "A1b2-c", "A‡-‡"},
                      OnigurumaCase{R"([^a-z&&[^0-9]])", "a1 b", "a‡‡b"},
                      OnigurumaCase{R"([^\W\d_]+)", "a\u0301b_1c", "‡_1‡"},
                      OnigurumaCase{R"([\S]+)", "a\u180eb c", "‡ ‡"},
                      OnigurumaCase{R"(\w)", "½²a-", "‡‡‡-"},
                      OnigurumaCase{R"([\w])", "½²a-", "½²‡-"},
                      OnigurumaCase{R"([\w-]+)", "a-b +", "‡ +"},
                      OnigurumaCase{R"(\p{^L}+)", "a1b", "a‡b"},
                      OnigurumaCase{R"([\p{Lu}\p{M}]+)", "A\u0897\ua7cbb", "‡b"},
                      OnigurumaCase{R"([[:alpha:]]+|[[:punct:]])", "ab\u0345+1$a_", "‡‡1‡‡‡"},
                      OnigurumaCase{R"([[:^space:]]+)", "a b", "‡ ‡"}));

INSTANTIATE_TEST_SUITE_P(Syntax, OnigurumaPatterns,
                         ::testing::Values(OnigurumaCase{R"(\p{N}{1,3}+)", "12345 6", "‡ ‡"},
                                           OnigurumaCase{R"(\d{2}?)", "123", "‡3‡"},
                                           OnigurumaCase{R"(l{,2})", "alll", "‡a‡‡"},
                                           OnigurumaCase{R"(a(?i)b|c)", "abaBaCc", "‡‡‡c"},
                                           OnigurumaCase{R"((?m:a.b))", "a\nb", "‡"},
                                           OnigurumaCase{R"(\bo)", "e\u0301o o ½o",
                                                         "e\u0301o ‡ ½o"},
                                           OnigurumaCase{R"(\v)", "\x0b\x0c\n", "‡\x0c\n"},
                                           OnigurumaCase{R"(\x{e9}|\u0041)", "éA", "‡‡"},
                                           OnigurumaCase{R"((?#note)o{2})", "oo", "‡"}));

TEST(Regex, OfSyntaxThatHasNoEqualIsRefusedByName) {
  const auto refusal = [](const char* pattern) {
    return cleave::testing::user_error([&] { Regex regex(pattern); });
  };

  EXPECT_EQ(
      refusal(R"(a|\X)"),
      R"(the pattern a|\X has \X at byte 2, which cleave does not read; use another tokenizer)");
  EXPECT_EQ(refusal(R"((?~ab))"),
            "the pattern (?~ab) has an absent operator at byte 0, which cleave does not read; use "
            "another tokenizer");
  EXPECT_EQ(refusal("[[:graph:]]"),
            "the pattern [[:graph:]] has [:graph:] at byte 1, which cleave does not read; use "
            "another tokenizer");
  EXPECT_EQ(refusal("((("), "the pattern ((( cannot be used: missing closing parenthesis");
  EXPECT_EQ(refusal(("é" + std::string(300, '(')).c_str()),
            "the pattern é" + std::string(198, '(') +
                "… cannot be used: parentheses are too deeply nested");
  EXPECT_EQ(refusal("[a"),
            "the pattern [a has a class without an end at byte 2, which cleave does not read; use "
            "another tokenizer");
}

}  // namespace
}  // namespace cleave::data::tokenizer
