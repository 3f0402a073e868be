#pragma once

#include <vector>

#include "cleave/schedule/program.h"

namespace cleave::engine {

/// How the data shards of a step lie on a replica. Every shard's microbatches are summed in order,
/// shards are added by one pairwise tree: first those of a replica, then those of the replicas.
///
/// A replica with 2^k shards needs k + 1 sums, like a binary counter: shard s adds into sum
/// popcount(s), and as many neighbours merge after it as s has trailing ones.
struct ShardFold {
  int microbatches = 1;  ///< per replica
  int shards = 1;        ///< per replica, a power of two that divides microbatches

  int per_shard() const { return microbatches / shards; }
  int sums() const;
  int shard_of(int microbatch) const { return microbatch / per_shard(); }
  int sum_of(int shard) const;        ///< which sum its microbatches add into
  int merges_after(int shard) const;  ///< how many neighbours merge when its last W is done
};

/// Shards that are complete once a W is done: its own, and those after it that have none.
struct ShardRange {
  int first = 0;
  int count = 0;
};

/// How the W of a stage's microbatches are added up for a replica, of which it may have no part in
/// some: in each shard the first W begins the sum and the last one ends it.
class PresentShards {
 public:
  /// Shards in which the stage has a part come before those in which it has none.
  PresentShards(const ShardFold& fold, const schedule::Topology& topology, StageId stage,
                ReplicaId replica);

  bool begins(int microbatch) const;
  ShardRange completed_by(int microbatch) const;  ///< none unless it ends its shard
  bool has_part() const { return last_[0] >= 0; }

 private:
  ShardFold fold_;
  std::vector<int> first_;  ///< [shard] microbatch, -1: none
  std::vector<int> last_;   ///< [shard]
};

/// Sum `from` is added to sum `into`. One that no W has written is made zero before.
struct SumMerge {
  int into = 0;
  int from = 0;
  bool clears_into = false;
  bool clears_from = false;
};

/// The sums of a stage on a device. Replicas that the device stands for take turns, so each has
/// sums of its own; those that are complete merge by the tree that other devices would go on with.
///
///   replicas 0 1 2 3    0 + 1 and 2 + 3 as soon as both are complete, then (0 + 1) + (2 + 3)
class DeviceSums {
 public:
  DeviceSums(const ShardFold& fold, const schedule::Topology& topology, StageId stage,
             DeviceId device);

  /// How many a device needs that stands for so many replicas.
  static int count(const ShardFold& fold, int replicas) { return replicas * fold.sums(); }

  // Microbatches are counted as the device counts them.
  int replica_of(int microbatch) const { return microbatch / fold_.microbatches; }
  int sum_of(int microbatch) const;
  bool begins(int microbatch) const;
  bool ends(int microbatch) const;  ///< the sum of a shard

  /// What merges after the W of a segment. `complete` [replica] says of which replicas its sums
  /// are complete, and is brought up to date.
  std::vector<SumMerge> merges_after(int microbatch, std::vector<char>& complete) const;

 private:
  void merge_replicas(int replica, std::vector<char>& complete,
                      std::vector<SumMerge>& merges) const;

  ShardFold fold_;
  std::vector<PresentShards> replicas_;
};

}  // namespace cleave::engine
