#include "cleave/base/utf8.h"

#include <gtest/gtest.h>

namespace cleave {
namespace {

TEST(Utf8Stream, PassesTextAndWaitsForWholeCharacters) {
  const std::string text = "naïve – 漢字 🙂\n\tend";
  EXPECT_EQ(printable(text), text);

  Utf8Stream stream;
  EXPECT_EQ(stream.add(0xc3), "");
  EXPECT_EQ(stream.add(0xa9), "é");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, EscapesWhatIsNoTextOrNoGoodForATerminal) {
  EXPECT_EQ(printable("a\x80z"), "a\\x80z");
  EXPECT_EQ(printable("\xc3(\xa9"), "\\xc3(\\xa9");
  EXPECT_EQ(printable("\xc3\xc3\xa9"), "\\xc3é");
  EXPECT_EQ(printable("\x1b[2J\x7f"), "\\x1b[2J\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b") << "a control character of two bytes";
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf") << "an overlong slash";
  EXPECT_EQ(printable("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "past U+10FFFF";
  EXPECT_EQ(printable("\xe6\xbc"), "\\xe6\\xbc") << "cut off";
}

TEST(PrintableLine, EndsNowhere) {
  EXPECT_EQ(printable_line("naïve 漢字 🙂"), "naïve 漢字 🙂");
  EXPECT_EQ(printable_line("a\nb\tc\x1b[2J"), "a\\x0ab\\x09c\\x1b[2J");
}

// As Python's decode("utf-8", "replace") has it.
TEST(Utf8, ReplacesEveryBrokenPartOnce) {
  EXPECT_EQ(with_broken_replaced("plain ascii, long enough"), "plain ascii, long enough");
  EXPECT_EQ(with_broken_replaced("é漢😀"), "é漢😀");
  EXPECT_EQ(with_broken_replaced("a\xe6\xbcz"), "a\xef\xbf\xbdz") << "cut off";
  EXPECT_EQ(with_broken_replaced("\xff\x80"), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(with_broken_replaced("\xe0\x80"), "\xef\xbf\xbd\xef\xbf\xbd") << "overlong";
  EXPECT_EQ(with_broken_replaced("abc\xf0\x9f\x98"), "abc\xef\xbf\xbd") << "at the end";
}

}  // namespace
}  // namespace cleave
