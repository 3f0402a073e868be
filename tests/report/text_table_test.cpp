#include "cleave/report/text_table.h"

#include <gtest/gtest.h>

namespace cleave::report {
namespace {

TEST(TextTable, AlignsNumbersToTheRight) {
  EXPECT_EQ(text_table({{"device", "busy"}, {"0", "12 ms"}, {"10", "3 ms"}}),
            "device   busy\n"
            "0       12 ms\n"
            "10       3 ms\n");
}

TEST(TextTable, GoesOnBelowWhereColumnsDoNotFit) {
  EXPECT_EQ(text_table({{"device", "weights", "gradients", "optimizer"},
                        {"0", "3.68 MiB", "4.91 MiB", "4.91 MiB"}},
                       28),
            "device   weights  gradients\n"
            "0       3.68 MiB   4.91 MiB\n"
            "\n"
            "device  optimizer\n"
            "0        4.91 MiB\n");
}

TEST(TextTable, NumbersRowsThatTheirFirstCellsDoNotTellApart) {
  EXPECT_EQ(
      text_table({{"pipeline", "tensor", "step"}, {"2", "1", "5 ms"}, {"2", "2", "7 ms"}}, 20),
      "#  pipeline  tensor\n"
      "1         2       1\n"
      "2         2       2\n"
      "\n"
      "#  step\n"
      "1  5 ms\n"
      "2  7 ms\n");
}

TEST(TextTable, BreaksACellThatNoLineHasRoomFor) {
  EXPECT_EQ(text_table({{"key", "meaning"}, {"a", "one two three four"}, {"b", "five"}}, 14),
            "key  meaning\n"
            "a    one two\n"
            "     three\n"
            "     four\n"
            "b    five\n");
}

}  // namespace
}  // namespace cleave::report
