// The sums of a device that stands for several replicas: whatever the turns, they are added as the
// tree over all shards would add them.

#include "cleave/engine/stage/shard_fold.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>

#include <gtest/gtest.h>

namespace cleave::engine {
namespace {

/// A stage on one device, which stands for all replicas; it has a part in the first `present`
/// microbatches of each shard that is counted like cards.
schedule::Program folded(int replicas, const ShardFold& fold, int present) {
  schedule::Program program{.stages = 1, .devices = 1, .replicas = replicas};
  program.microbatches = fold.microbatches;
  program.placement = {std::vector<int>(replicas, 0)};
  program.segments = {1};
  for (int m = 0; m < fold.microbatches; ++m)
    for (int r = 0; r < replicas; ++r) {
      const int shard = r * fold.shards + fold.shard_of(m);
      const int card = m % fold.per_shard() * replicas * fold.shards + shard;
      if (card >= present) program.absent.push_back({0, m, r});
    }
  return program;
}

bool is_present(const schedule::Topology& topology, MicrobatchId m) {
  return topology.present(0, topology.of_replica(DeviceId{0}, m));
}

/// Every leaf in microbatch order, then neighbours by widths.
float by_tree(const schedule::Topology& topology, const ShardFold& fold, int replicas,
              const std::vector<float>& values) {
  std::vector<float> leaves(replicas * fold.shards, 0.0f);
  for (MicrobatchId m{0}; m < replicas * fold.microbatches; ++m)
    if (is_present(topology, m)) leaves[m / fold.per_shard()] += values[m];
  for (std::size_t width = 1; width < leaves.size(); width *= 2)
    for (std::size_t s = 0; s + width < leaves.size(); s += 2 * width)
      leaves[s] += leaves[s + width];
  return leaves[0];
}

/// Microbatches of each replica in order, replicas by any turns.
std::vector<int> turns(const schedule::Topology& topology, const ShardFold& fold, int replicas,
                       std::mt19937& random) {
  std::vector<int> next(replicas, 0);
  std::vector<int> order;
  while (static_cast<int>(order.size()) < replicas * fold.microbatches) {
    const int r = static_cast<int>(random() % static_cast<unsigned>(replicas));
    if (next[r] < fold.microbatches) order.push_back(r * fold.microbatches + next[r]++);
  }
  std::erase_if(order, [&](int m) { return !is_present(topology, MicrobatchId{m}); });
  return order;
}

float by_device(const DeviceSums& sums, const ShardFold& fold, int replicas,
                const std::vector<int>& order, const std::vector<float>& values) {
  // What no W has written is rubbish.
  std::vector<float> memory(DeviceSums::count(fold, replicas), 1e9f);
  std::vector<char> complete(replicas, 0);
  for (const int m : order) {
    float& sum = memory[sums.sum_of(m)];
    sum = sums.begins(m) ? 0.0f + values[m] : sum + values[m];
    for (const SumMerge& merge : sums.merges_after(m, complete)) {
      if (merge.clears_into) memory[merge.into] = 0;
      if (merge.clears_from) memory[merge.from] = 0;
      if (merge.into != merge.from) memory[merge.into] += memory[merge.from];
    }
  }
  return memory[0];
}

TEST(DeviceSums, AddUpAsTheTreeOverAllShardsWhateverTheTurns) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (int n = 0; n < 4000; ++n) {
    const int replicas = 1 + static_cast<int>(random() % 8);
    const bool folds = std::has_single_bit(static_cast<unsigned>(replicas));
    const int shards = folds ? 1 << random() % 3 : 1;
    const ShardFold fold{.microbatches = shards * (1 + static_cast<int>(random() % 3)),
                         .shards = shards};
    const int all = replicas * fold.microbatches;
    const int present = random() % 2 ? all : 1 + static_cast<int>(random() % all);
    const schedule::Program program = folded(replicas, fold, present);
    const schedule::Topology topology(program);
    std::vector<float> values(all);
    for (float& value : values) value = normal(random);
    const DeviceSums sums(fold, topology, StageId{0}, DeviceId{0});

    const float found =
        by_device(sums, fold, replicas, turns(topology, fold, replicas, random), values);

    EXPECT_EQ(std::bit_cast<std::uint32_t>(found),
              std::bit_cast<std::uint32_t>(by_tree(topology, fold, replicas, values)))
        << replicas << " replicas, " << shards << " shards, " << present << " of " << all;
  }
}

TEST(DeviceSums, TakeAsMuchRoomForTwoReplicasAsAFoldOfTwoShards) {
  EXPECT_EQ(DeviceSums::count({.microbatches = 4, .shards = 2}, 1), 2);
  EXPECT_EQ(DeviceSums::count({.microbatches = 4, .shards = 1}, 2), 2);
  EXPECT_EQ(DeviceSums::count({.microbatches = 4, .shards = 1}, 4), 4);
}

}  // namespace
}  // namespace cleave::engine
