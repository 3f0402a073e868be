#include "cleave/base/wrap.h"

#include <gtest/gtest.h>

namespace cleave {
namespace {

TEST(Wrap, BreaksAtBlanksAndIndentsAllButTheFirstLine) {
  EXPECT_EQ(wrap("one two three", 2, 9), "one two\n  three\n");
  EXPECT_EQ(wrap("one two three", 2, 15), "one two three\n");
  EXPECT_EQ(wrap("", 2, 9), "\n");
}

TEST(Wrap, BreaksAWordThatIsTooLongAtCommasOnly) {
  EXPECT_EQ(wrap("a unbreakable b", 0, 6), "a\nunbreakable\nb\n");
  EXPECT_EQ(wrap("a ab=,cd=,ef=,gh= b", 1, 8), "a ab=,\n cd=,\n ef=,gh=\n b\n");
}

TEST(Wrap, CountsCharactersAndNotBytes) {
  EXPECT_EQ(wrap("≥≥≥ ≥≥≥", 0, 7), "≥≥≥ ≥≥≥\n");
}

}  // namespace
}  // namespace cleave
