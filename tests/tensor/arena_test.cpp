#include "cleave/tensor/arena.h"

#include <algorithm>
#include <span>

#include <gtest/gtest.h>

#include "cleave/base/check.h"

namespace cleave {
namespace {

TEST(Arena, IsAlignedAndZero) {
  const Arena arena(1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.at(0)) % 64, 0u);
  EXPECT_TRUE(std::ranges::all_of(std::span(arena.at(0), 1000),
                                  [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST(Arena, PeakIsTheHighestEndOfAnythingAcquired) {
  Arena arena(1000);
  arena.acquire(0, 100);
  arena.acquire(300, 200);
  arena.release(300);
  EXPECT_EQ(arena.peak(), 500);
  arena.reset_peak();
  EXPECT_EQ(arena.peak(), 100);
  arena.acquire(100, 200);
  EXPECT_EQ(arena.peak(), 300);
}

// A plan that gives one byte to two owners is caught from either side.
TEST(Arena, RefusesBlocksThatMeet) {
  Arena arena(1000);
  arena.acquire(100, 100);
  EXPECT_THROW(arena.acquire(199, 1), InternalError);
  EXPECT_THROW(arena.acquire(50, 51), InternalError);
  EXPECT_THROW(arena.acquire(100, 100), InternalError);
  EXPECT_THROW(arena.acquire(950, 51), InternalError) << "beyond the end";
  EXPECT_NO_THROW(arena.acquire(200, 800));
  EXPECT_NO_THROW(arena.acquire(0, 100));
}

TEST(Arena, ReleasesOnlyWhatWasAcquired) {
  Arena arena(100);
  arena.acquire(0, 50);
  EXPECT_THROW(arena.release(10), InternalError);
  arena.release(0);
  EXPECT_THROW(arena.release(0), InternalError);
}

}  // namespace
}  // namespace cleave
