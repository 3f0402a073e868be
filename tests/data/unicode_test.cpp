#include "cleave/data/tokenizer/unicode.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "cleave/base/hash.h"
#include "cleave/data/tokenizer/code_point.h"

namespace cleave::data::tokenizer {
namespace {

struct CharacterFunction {
  const char* name;
  std::function<void(std::string&)> apply;
  const char* hash;  ///< FNV-1a of Hugging Face's results, printed by scripts/unicode_tables
};

const CharacterFunction kFunctions[] = {
    {"NFC", [](std::string& text) { to_form(Form::Nfc, text); }, "464050bed77b1094"},
    {"NFD", [](std::string& text) { to_form(Form::Nfd, text); }, "e9ef5c99bb0ebc25"},
    {"NFKC", [](std::string& text) { to_form(Form::Nfkc, text); }, "d182163ee1e53e97"},
    {"NFKD", [](std::string& text) { to_form(Form::Nfkd, text); }, "a1760e6562aca734"},
    {"Lowercase", to_lower_case, "5381ce3dd1d7240a"},
    {"StripAccents", strip_marks, "d563f04012577502"},
};

// Every character there is, after a mark and before one that may have to move in front of it.
TEST(Unicode, EveryCharacterBecomesWhatHuggingFaceMakesOfIt) {
  for (const CharacterFunction& function : kFunctions) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (char32_t code = 0; code < 0x110000; ++code) {
      if (code >= 0xd800 && code < 0xe000) continue;
      std::string text = "a\u0301";
      append_code_point(code, text);
      text += "\u0323";
      function.apply(text);
      for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
    EXPECT_EQ(to_hex(hash), function.hash) << function.name;
  }
}

}  // namespace
}  // namespace cleave::data::tokenizer
