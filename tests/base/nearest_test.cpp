#include "cleave/base/nearest.h"

#include <array>

#include <gtest/gtest.h>

namespace cleave {
namespace {

constexpr std::array<std::string_view, 4> kKnown = {"train.steps", "train.lr", "model.layers",
                                                    "data.path"};

TEST(EditDistance, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("same", "same"), 0);
}

TEST(Nearest, FindsASlip) {
  EXPECT_EQ(nearest("train.stepz", kKnown), "train.steps");
  EXPECT_EQ(nearest("model.layer", kKnown), "model.layers");
}

TEST(Nearest, FindsTheRightWordInTheWrongSection) {
  EXPECT_EQ(nearest("optimizer.lr", kKnown), "train.lr");
  EXPECT_EQ(nearest("steps", kKnown), "train.steps");
}

TEST(Nearest, StaysSilentWhenNothingIsNear) {
  EXPECT_EQ(nearest("server.port", kKnown), "");
  EXPECT_EQ(did_you_mean("server.port", kKnown), "");
  EXPECT_EQ(did_you_mean("train.step", kKnown), "; did you mean train.steps?");
}

}  // namespace
}  // namespace cleave
