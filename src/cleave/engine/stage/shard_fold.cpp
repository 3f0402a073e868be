#include "cleave/engine/stage/shard_fold.h"

#include <algorithm>
#include <bit>
#include <span>

#include "cleave/base/check.h"

namespace cleave::engine {

int ShardFold::sums() const {
  return std::countr_zero(static_cast<unsigned>(shards)) + 1;
}

int ShardFold::sum_of(int shard) const {
  return std::popcount(static_cast<unsigned>(shard));
}

int ShardFold::merges_after(int shard) const {
  return std::countr_one(static_cast<unsigned>(shard));
}

PresentShards::PresentShards(const ShardFold& fold, const schedule::Topology& topology,
                             StageId stage, ReplicaId replica)
    : fold_(fold), first_(fold.shards, -1), last_(fold.shards, -1) {
  for (MicrobatchId m{0}; m < fold.microbatches; ++m) {
    if (!topology.present(stage, {.replica = replica, .microbatch = m})) continue;
    const int shard = fold.shard_of(m);
    CLEAVE_CHECK(shard == 0 || last_[shard - 1] >= 0, "stage ", stage, " has a part in shard ",
                 shard, " and none in the one before it");
    if (first_[shard] < 0) first_[shard] = m;
    last_[shard] = m;
  }
}

bool PresentShards::begins(int microbatch) const {
  return first_[fold_.shard_of(microbatch)] == microbatch;
}

ShardRange PresentShards::completed_by(int microbatch) const {
  const int shard = fold_.shard_of(microbatch);
  if (last_[shard] != microbatch) return {};
  int end = shard + 1;
  while (end < fold_.shards && last_[end] < 0) ++end;
  return {shard, end - shard};
}

DeviceSums::DeviceSums(const ShardFold& fold, const schedule::Topology& topology, StageId stage,
                       DeviceId device)
    : fold_(fold) {
  for (int r = 0; r < topology.replicas[device]; ++r)
    replicas_.emplace_back(fold, topology, stage, ReplicaId{topology.replica[device] + r});
}

int DeviceSums::sum_of(int microbatch) const {
  const int shard = fold_.shard_of(microbatch % fold_.microbatches);
  return replica_of(microbatch) * fold_.sums() + fold_.sum_of(shard);
}

bool DeviceSums::begins(int microbatch) const {
  return replicas_[replica_of(microbatch)].begins(microbatch % fold_.microbatches);
}

bool DeviceSums::ends(int microbatch) const {
  return replicas_[replica_of(microbatch)].completed_by(microbatch % fold_.microbatches).count > 0;
}

std::vector<SumMerge> DeviceSums::merges_after(int microbatch, std::vector<char>& complete) const {
  const int replica = replica_of(microbatch);
  const ShardRange shards = replicas_[replica].completed_by(microbatch % fold_.microbatches);
  std::vector<SumMerge> merges;
  const int base = replica * fold_.sums();
  for (int shard = shards.first; shard < shards.first + shards.count; ++shard) {
    // Devices add zeros for such a shard too, and a zero can change the sign of another.
    bool clears = shard > shards.first;
    int top = base + fold_.sum_of(shard);
    for (int i = 0; i < fold_.merges_after(shard); ++i, --top, clears = false)
      merges.push_back({.into = top - 1, .from = top, .clears_from = clears});
    if (clears) merges.push_back({.into = top, .from = top, .clears_into = true});
  }
  if (shards.count > 0 && shards.first + shards.count == fold_.shards)
    merge_replicas(replica, complete, merges);
  return merges;
}

void DeviceSums::merge_replicas(int replica, std::vector<char>& complete,
                                std::vector<SumMerge>& merges) const {
  complete[replica] = 1;
  const int count = static_cast<int>(replicas_.size());
  const auto half = [&](int first, int width) {
    return std::span(replicas_).subspan(first, std::min(width, count - first));
  };
  for (int width = 1; width < count; width *= 2) {
    const int left = replica / (2 * width) * (2 * width);
    const int right = left + width;
    if (right >= count) continue;
    for (int r = left; r < std::min(right + width, count); ++r)
      if (!complete[r] && replicas_[r].has_part()) return;
    merges.push_back(
        {.into = left * fold_.sums(),
         .from = right * fold_.sums(),
         .clears_into = std::ranges::none_of(half(left, width), &PresentShards::has_part),
         .clears_from = std::ranges::none_of(half(right, width), &PresentShards::has_part)});
  }
}

}  // namespace cleave::engine
