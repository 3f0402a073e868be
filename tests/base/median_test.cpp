#include "cleave/base/median.h"

#include <gtest/gtest.h>

namespace cleave {
namespace {

TEST(Median, IsTheMiddleValue) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({9, 1, 5}), 5);
}

TEST(Median, IsTheUpperOneOfTwoInTheMiddle) {
  EXPECT_EQ(median({4, 1}), 4);
  EXPECT_EQ(median({3, 8, 1, 5}), 5);
}

TEST(Median, OfNothingIsABug) {
  EXPECT_THROW(median({}), InternalError);
}

}  // namespace
}  // namespace cleave
