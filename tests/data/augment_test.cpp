#include "cleave/data/image/augment.h"

#include <array>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace cleave::data {
namespace {

constexpr std::array kBoth = {ImageChange::Flip, ImageChange::Crop};

std::vector<std::uint8_t> counted(std::int64_t bytes) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i);
  return pixels;
}

TEST(Augment, IsAFunctionOfSeedEpochSampleAndImage) {
  const ImageDraw draw{.seed = 1, .epoch = 2, .sample = 3, .image = 0};
  EXPECT_EQ(change_of(kBoth, draw, 64), change_of(kBoth, draw, 64));
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  for (std::int64_t i = 0; i < 8; ++i) {
    for (ImageDraw other :
         {ImageDraw{1 + static_cast<std::uint64_t>(i), 2, 3, 0}, ImageDraw{1, 2 + i, 3, 0},
          ImageDraw{1, 2, 3 + i, 0}, ImageDraw{1, 2, 3, i}}) {
      const Change change = change_of(kBoth, other, 64);
      seen.insert({change.top, change.left});
    }
  }
  EXPECT_GT(seen.size(), 20u);  // of 29 draws among 289 places
}

TEST(Augment, MovesByAtMostAnEighthAndMirrorsAboutHalf) {
  int mirrored = 0;
  for (std::int64_t sample = 0; sample < 1000; ++sample) {
    const Change change = change_of(kBoth, {.seed = 7, .sample = sample}, 32);
    EXPECT_LE(std::abs(change.top), 4);
    EXPECT_LE(std::abs(change.left), 4);
    mirrored += change.mirrored ? 1 : 0;
  }
  EXPECT_NEAR(mirrored, 500, 80);  // five deviations
}

TEST(Augment, ChangesNothingThatIsNotAskedFor) {
  for (std::int64_t sample = 0; sample < 50; ++sample) {
    const ImageDraw draw{.seed = 7, .sample = sample};
    EXPECT_EQ(change_of({}, draw, 32), Change{});
    EXPECT_EQ(change_of(std::array{ImageChange::Flip}, draw, 32).top, 0);
    EXPECT_FALSE(change_of(std::array{ImageChange::Crop}, draw, 32).mirrored);
  }
}

TEST(Augment, MirrorsAndMovesPixels) {
  SetDescription set;
  set.width = 3;
  set.height = 2;
  set.channels = 2;
  std::vector<std::uint8_t> room(12);

  std::vector<std::uint8_t> pixels = counted(12);
  apply({.mirrored = true}, set, pixels, room);
  EXPECT_EQ(pixels, (std::vector<std::uint8_t>{4, 5, 2, 3, 0, 1, 10, 11, 8, 9, 6, 7}));

  pixels = counted(12);
  apply({.top = 1, .left = -1}, set, pixels, room);  // what lies outside repeats the border
  EXPECT_EQ(pixels, (std::vector<std::uint8_t>{6, 7, 6, 7, 8, 9, 6, 7, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace cleave::data
