#include "cleave/report/markup.h"

#include <gtest/gtest.h>

namespace cleave::report {
namespace {

TEST(Markup, EscapesXml) {
  EXPECT_EQ(xml_escaped("a<b & \"c\" 'd'>"), "a&lt;b &amp; &quot;c&quot; &#39;d&#39;&gt;");
  EXPECT_EQ(xml_escaped("p × m"), "p × m");
  EXPECT_EQ(xml_escaped(std::string_view("\0\x1b", 2)), "\ufffd\ufffd");
}

TEST(Markup, EscapesJsonSoThatAScriptCannotEnd) {
  EXPECT_EQ(json_quoted("</script>"), "\"\\u003c/script\\u003e\"");
  EXPECT_EQ(json_quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
  EXPECT_EQ(json_quoted("\u2028é"), "\"\\u2028é\"");
}

TEST(Markup, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(json_quoted("a\xff"
                        "b"),
            "\"a\ufffdb\"");
  EXPECT_EQ(json_quoted("\xc3"), "\"\ufffd\"");                      // cut short
  EXPECT_EQ(json_quoted("\xc0\xaf"), "\"\ufffd\ufffd\"");            // overlong
  EXPECT_EQ(json_quoted("\xed\xa0\x80"), "\"\ufffd\ufffd\ufffd\"");  // a surrogate
  EXPECT_EQ(json_quoted("\xf0\x9f\x98\x80"), "\"\xf0\x9f\x98\x80\"");
}

}  // namespace
}  // namespace cleave::report
