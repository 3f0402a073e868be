#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/comm/tensor_adder.h"
#include "cleave/engine/stage/stage.h"
#include "cleave/ops/compute.h"
#include "cleave/schedule/program.h"

namespace cleave::engine {

/// How the data shards of a step lie on a replica. Every shard's microbatches are summed in order,
/// shards are added by one pairwise tree: first those of a device, then those of the replicas.
///
/// A device with 2^k shards needs k + 1 sums, like a binary counter: shard s adds into sum
/// popcount(s), and as many neighbours merge behind it as s has trailing ones.
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

/// How the W of a stage's microbatches are added up on a replica, of which it may have no part in
/// some: in each shard the first W begins the sum and the last one ends it.
class PresentShards {
 public:
  /// Shards in which the stage has a part come before those in which it has none.
  PresentShards(const ShardFold& fold, const schedule::Topology& topology, int stage, int replica);

  bool begins(int microbatch) const;
  ShardRange completed_by(int microbatch) const;  ///< none unless it ends its shard

 private:
  ShardFold fold_;
  std::vector<int> first_;  ///< [shard] microbatch, -1: none
  std::vector<int> last_;   ///< [shard]
};

/// Brings the gradients of one device together with those of its replicas and of tied weights.
class GradientSync {
 public:
  struct Parts {
    const schedule::Program* program = nullptr;
    int device = 0;
    std::vector<Stage*> stages;              ///< [stage], null: elsewhere
    std::span<const std::string> tie_names;  ///< [tie] -> the parameter that owns the weight
    ShardFold fold;
    ops::Compute* compute = nullptr;
    comm::Communicator* peers = nullptr;  ///< by place
  };

  /// All devices of the run make theirs at the same time: groups are formed.
  explicit GradientSync(Parts parts);

  /// After the W that completes shards: merges what the fold says.
  void merge(int stage, int segment, ShardRange shards);

  /// Makes the sum of a segment zero, which has no W in this step.
  void clear(int stage, int segment);

  /// REDUCE: posts the sum over the replicas; it goes on while others compute, until finish().
  void reduce(int stage, int segment, std::span<std::byte> workspace);

  /// Notes which sums have arrived. Call it behind Communicator::progress().
  void look();

  /// TIE: head + embedding, on both devices that hold the weight.
  void tie(int index);

  /// WAIT:REDUCE: until the sum is there.
  void finish(int stage, int segment);

  /// True while a REDUCE is on its way.
  bool reducing() const { return in_flight_ > 0; }

  /// Before the first instruction of a step.
  void begin_step();

  /// Bytes that the sum of a segment's gradients over `replicas` is added up in.
  static std::int64_t workspace_bytes(const plan::SegmentState& segment, int replicas);

  /// [stage] -> the devices that hold it; null where this one does not.
  std::vector<comm::Communicator*> replicas() const;

  /// Kernel scratch that TIE of so many bytes between two devices is added up in; the same on both.
  static std::int64_t tie_workspace(std::int64_t bytes);

  /// What `replica` exchanges of the gradient of the weight that a stage has tied to `name`: all of
  /// it, or the replica's share.
  static std::int64_t tied_bytes(const plan::StateLayout& user, const std::string& name,
                                 int replica);

 private:
  /// A sum on its way. Where replicas share state it is that of one run.
  struct Reduction {
    comm::Pending pending;
    int stage = 0;
    int segment = 0;
    const plan::ShareRun* run = nullptr;
  };

  void reduce_run(int stage, int segment, const plan::ShareRun& run,
                  std::span<std::byte>& workspace);
  void arrived(Reduction& reduction);

  Parts parts_;
  comm::TensorAdder adder_;
  std::vector<std::unique_ptr<comm::Communicator>> replicas_;  ///< [stage]
  std::vector<std::unique_ptr<comm::Communicator>>
      ties_;                           ///< [tie], null: not between this device and another
  std::vector<Reduction> reductions_;  ///< of this step, as posted
  std::vector<std::size_t> borders_;   ///< of the run being posted
  int in_flight_ = 0;
};

}  // namespace cleave::engine
