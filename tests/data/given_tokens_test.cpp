#include "cleave/data/given_tokens.h"

#include <numeric>

#include "support/errors.h"
#include <gtest/gtest.h>

#include "cleave/data/dataset.h"

namespace cleave::data {
namespace {

void give_squares(const std::string& name, std::int64_t size) {
  give_tokens(name, {.size = size, .read = [](std::int64_t offset, std::span<std::int32_t> tokens) {
                       for (std::int32_t& token : tokens) {
                         token = static_cast<std::int32_t>(offset * offset % 50);
                         ++offset;
                       }
                     }});
}

TEST(GivenTokens, AreReadAsThoseOfAFileAre) {
  give_squares("memory:squares", 20'000);
  const TokenStream stream("memory:squares", TokenType::Auto, 50);
  std::vector<std::int32_t> tokens(10'000);  // more than are read in one go
  stream.read(7, tokens);
  for (std::int64_t i = 0; i < std::ssize(tokens); ++i)
    ASSERT_EQ(tokens[i], (i + 7) * (i + 7) % 50);
  EXPECT_EQ(stream.size(), 20'000);
}

TEST(GivenTokens, AreToldApartByTheirDigest) {
  give_squares("memory:long", 20'000);
  give_squares("memory:short", 19'999);
  const auto digest = [](const char* name) {
    return TokenStream(name, TokenType::Auto, 50).digest();
  };
  EXPECT_EQ(digest("memory:long"), digest("memory:long"));
  EXPECT_NE(digest("memory:long"), digest("memory:short"));
}

TEST(GivenTokens, OutsideOfTheVocabularyAreNamed) {
  give_squares("memory:squares", 100);
  const TokenStream stream("memory:squares", TokenType::Auto, 49);
  EXPECT_EQ(testing::user_error([&] { stream.check_tokens(); }),
            "memory:squares has token 49 at position 7, but model.vocab is 49; set model.vocab to "
            "at least 50");
}

TEST(GivenTokens, HaveToBeGivenUnderANameThatIsNoFile) {
  EXPECT_EQ(testing::user_error([] { give_squares("squares", 1); }),
            "tokens cannot be given as \"squares\"; begin the name with memory:");
  give_squares("memory:gone", 100);
  take_back_tokens("memory:gone");
  EXPECT_EQ(testing::user_error([] { TokenStream("memory:gone", TokenType::Auto, 50); }),
            "data.path is memory:gone, and this program has given no tokens of that name; call "
            "give_tokens() first, or name a file");
}

}  // namespace
}  // namespace cleave::data
