#include "cleave/train/tune/segment_profile.h"

#include <gtest/gtest.h>

#include "cleave/comm/launcher.h"
#include "cleave/model/presets.h"
#include "cleave/train/tune/few_blocks.h"

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

/// Parts of a model of which the forward pass of each takes its number.
std::vector<plan::StageCosts> numbered_parts(const ModelShape& shape) {
  std::vector<plan::StageCosts> parts(static_cast<std::size_t>(shape.blocks()) + 2);
  for (std::size_t part = 0; part < parts.size(); ++part)
    parts[part].forward = static_cast<double>(part);
  return parts;
}

std::vector<double> measured_parts_of(const ModelShape& all) {
  const ModelShape few = with_few_blocks(all);
  std::vector<double> numbers;
  for (const plan::StageCosts& part : costs_of_all_blocks(numbered_parts(few), few, all))
    numbers.push_back(part.forward);
  return numbers;
}

// The last block of a tower has its end with it, the first language block the projector, and those
// after which features of the tower are added are measured one by one.
TEST(FewBlocks, StandForAllThatAreAlike) {
  ModelShape deep = model::find_preset("deepstack-tiny").shape;
  deep.vision.layers = 10;  // of which nine are computed
  deep.layers = 8;
  EXPECT_EQ(measured_parts_of(deep),
            (std::vector<double>{0, 1, 1, 1, 1, 1, 1, 1, 1, 5, 6, 7, 8, 10, 10, 10, 10, 10, 11}));
  ModelShape pair = model::find_preset("clip-tiny").shape;
  pair.vision.layers = 4;
  pair.layers = 3;
  EXPECT_EQ(measured_parts_of(pair), (std::vector<double>{0, 1, 1, 1, 2, 3, 4, 4, 5}));
  EXPECT_EQ(measured_parts_of(model::find_preset("deepstack-tiny").shape),
            (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace cleave::train
