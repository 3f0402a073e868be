#include "cleave/train/tune/auto_space.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "train/auto_config.h"
#include <gtest/gtest.h>

#include "cleave/schedule/generators.h"
#include "cleave/train/tune/auto_grid.h"

namespace cleave::train {
namespace {

using testing::config_of;
using testing::savings_of;

TEST(AutoGrid, IsOneWhateverLayoutIsChosen) {
  const std::string open =
      "microbatch = \"auto\"\n[devices]\ncount = 4\n[parallel]\npipeline = \"auto\"\n"
      "data = \"auto\"\ntensor = \"auto\"\nschedule = \"auto\"\n";
  const Config grid = grids(config_of(open)).front();
  EXPECT_EQ(grid.numerics.data_shards, 4);
  EXPECT_EQ(grid.numerics.tensor_shards, 1);
  EXPECT_EQ(grid.train.microbatch, 1) << "two to a shard";
  std::set<std::int64_t> degrees;
  for (const plan::Layout& layout : layouts(space_of(grid))) {
    const Config one = with_layout(grid, layout);
    EXPECT_EQ(one.numerics.data_shards, 4);
    EXPECT_EQ(one.numerics.tensor_shards, 1);
    EXPECT_EQ(one.train.microbatch, 1);
    degrees.insert(*one.parallel.data);
  }
  EXPECT_EQ(degrees, (std::set<std::int64_t>{1, 2, 4}));
}

TEST(AutoGrid, FollowsFromShapesAndCounts) {
  const auto first = [](const std::string& rest) {
    const Config grid = grids(config_of(rest)).front();
    return std::pair(*grid.numerics.data_shards, *grid.train.microbatch);
  };
  const std::string open = "[parallel]\npipeline = \"auto\"\ndata = \"auto\"\n";
  const std::string four = open + "[devices]\ncount = 4\n";
  EXPECT_EQ(first(four), std::pair(4l, 1l));
  EXPECT_EQ(first("microbatch = 4\n" + four), std::pair(2l, 4l)) << "the batch is 8";
  EXPECT_EQ(first(open + "[devices]\ncount = 6\n"), std::pair(2l, 1l));
  EXPECT_EQ(first("microbatch = \"auto\"\n[parallel]\ndata = 1\n[devices]\ncount = 1\n"),
            std::pair(1l, 4l));
  EXPECT_EQ(first(four + "[numerics]\ndata_shards = 8\n"), std::pair(8l, 1l));
}

TEST(AutoGrid, IsLeanerWhereNothingFitsAndAnyIfAsked) {
  const std::string open =
      "microbatch = \"auto\"\n[devices]\ncount = 2\n[parallel]\npipeline = \"auto\"\n"
      "data = \"auto\"\ntensor = \"auto\"\n";
  std::vector<std::array<std::int64_t, 3>> ladder;
  for (const Config& one : grids(config_of(open)))
    ladder.push_back(
        {*one.numerics.data_shards, *one.train.microbatch, *one.numerics.tensor_shards});
  EXPECT_EQ(ladder,
            (std::vector<std::array<std::int64_t, 3>>{{2, 2, 1}, {2, 1, 1}, {1, 1, 1}, {1, 1, 2}}));

  const Config any = config_of(open + "grid = \"any\"\n");
  EXPECT_EQ(grids(any), std::vector{any});
  const Config closed = config_of("[parallel]\npipeline = \"auto\"\n[devices]\ncount = 2\n");
  EXPECT_EQ(grids(closed), std::vector{closed});
}

std::vector<plan::Layout> layouts_of(const std::string& rest) {
  return layouts(space_of(config_of(rest)));
}

TEST(AutoSpace, HasEveryScheduleThatThereIs) {
  const auto all = layouts_of(
      "[devices]\ncount = 2\n[parallel]\npipeline = 2\nschedule = \"auto\"\nzero = \"auto\"");
  for (const std::string_view name : schedule::schedule_names()) {
    EXPECT_TRUE(std::ranges::any_of(all, [&](const plan::Layout& layout) {
      return layout.schedule == name;
    })) << name;
  }
}

TEST(AutoSpace, KeepsWhatIsGiven) {
  const std::string devices = "[devices]\ncount = 2\n[parallel]\npipeline = 2\nzero = \"auto\"\n";
  const auto chunked = layouts_of(devices + "schedule = \"interleaved\"");
  ASSERT_EQ(chunked.size(), 3u);
  EXPECT_EQ(chunked.back().chunks, 4);
  const auto cut = layouts_of(devices + "schedule = \"auto\"\npartition = [1, 2, 3, 2]");
  EXPECT_FALSE(cut.empty());
  for (const plan::Layout& layout : cut) EXPECT_EQ(layout.chunks, 2) << layout.schedule;
  const auto many = layouts_of(devices + "schedule = \"interleaved\"\nchunks = 5");
  ASSERT_EQ(many.size(), 1u);
  EXPECT_EQ(many[0].chunks, 5);
}

TEST(AutoSpace, SavesMemoryOnlyWhereItIsLimitedAndTheLeastFirst) {
  const std::string open =
      "[parallel]\ndata = 2\nzero = \"auto\"\nrecompute = \"auto\"\n[devices]\ncount = 2\n";
  const auto limited = savings_of(config_of(open + "memory = \"1MiB\""));
  EXPECT_EQ(limited.size(), 12u);
  EXPECT_EQ(degree_of_saving(limited.front()), 0);
  EXPECT_EQ(degree_of_saving(limited.back()), 5);
  EXPECT_EQ(savings_of(config_of(open)).size(), 2u);
}

}  // namespace
}  // namespace cleave::train
