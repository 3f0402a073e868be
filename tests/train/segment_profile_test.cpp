#include "cleave/train/tune/segment_profile.h"

#include <gtest/gtest.h>

#include "cleave/comm/launcher.h"

namespace cleave::train {
namespace {

// Each of its two blocks is measured; that both take the same number of seconds to the last bit
// would mean that one stands for the other.
TEST(SegmentProfile, HasATimeForEveryBlockWhereTheyAreNotAlike) {
  const Config config = parse_config(
      "[model]\npreset = \"cnn-fashion\"\n[train]\nmicrobatch = 2\n[devices]\nthreads = 1\n",
      "run");
  comm::LocalLauncher here;
  const auto parts = profile_segments(config, schedule::Recompute::None, here).parts;
  ASSERT_EQ(std::ssize(parts), config.model.blocks() + 2);
  ASSERT_GE(config.model.blocks(), 2);
  EXPECT_NE(parts[1].forward, parts[2].forward);
}

}  // namespace
}  // namespace cleave::train
