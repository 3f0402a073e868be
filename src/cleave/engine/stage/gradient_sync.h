#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/comm/tensor_adder.h"
#include "cleave/engine/stage/peers.h"
#include "cleave/engine/stage/shard_fold.h"
#include "cleave/engine/stage/stage.h"
#include "cleave/ops/compute.h"
#include "cleave/schedule/program.h"

namespace cleave::engine {

/// Brings the gradients of one device together with those of its replicas and of tied weights.
class GradientSync {
 public:
  struct Parts {
    const schedule::Program* program = nullptr;
    int device = 0;
    std::vector<Stage*> stages;              ///< [stage], null: elsewhere
    std::span<const std::string> tie_names;  ///< [tie] -> the parameter that owns the weight
    ops::Compute* compute = nullptr;
    const Peers* peers = nullptr;
    std::span<std::byte> on_host = {};  ///< what TIE passes through, where messages do
  };

  /// All devices of the run make theirs at the same time: groups are formed.
  explicit GradientSync(Parts parts);

  /// After a W: adds up sums of a segment that are complete.
  void merge(StageId stage, SegmentId segment, std::span<const SumMerge> merges);

  /// Makes the sum of a segment zero, which has no W in this step.
  void clear(StageId stage, SegmentId segment);

  /// Where a sum over replicas is added up, and what it passes through in the host's memory.
  struct Room {
    std::span<std::byte> workspace;
    std::span<std::byte> on_host;
  };

  /// REDUCE: posts the sum over the replicas; it goes on while others compute, until finish().
  void reduce(StageId stage, SegmentId segment, Room room);

  /// Notes which sums have arrived. Call it after Communicator::progress().
  void look();

  /// TIE: head + embedding, on both devices that hold the weight.
  void tie(int index);

  /// WAIT:REDUCE: until the sum is there.
  void finish(StageId stage, SegmentId segment);

  /// True while a REDUCE is on its way.
  bool reducing() const { return in_flight_ > 0; }

  /// Before the first instruction of a step.
  void begin_step();

  /// Bytes that the sum of a segment's gradients over so many devices is added up in.
  static std::int64_t workspace_bytes(const plan::SegmentState& segment, int replicas);

  /// What that sum passes through where no message reaches the device's memory.
  static std::int64_t host_bytes(const plan::SegmentState& segment, int replicas);
  /// The same of TIE of so many bytes.
  static std::int64_t tie_host_bytes(std::int64_t bytes);

  /// [stage] -> the devices that hold it; null where this one does not.
  std::vector<comm::Communicator*> replicas() const;

  /// Kernel scratch that TIE of so many bytes between two devices is added up in; the same on both.
  static std::int64_t tie_workspace(std::int64_t bytes);

  /// What a device exchanges of the gradient of the weight that a stage has tied to `name`: all of
  /// it, or its share. `rank`: of the devices that hold the stage.
  static std::int64_t tied_bytes(const plan::StateLayout& user, const std::string& name, int rank);

 private:
  /// A sum on its way. Where replicas share state it is that of one run.
  struct Reduction {
    comm::Pending pending;
    StageId stage;
    SegmentId segment;
    const plan::ShareRun* run = nullptr;
  };

  void reduce_run(StageId stage, SegmentId segment, const plan::ShareRun& run, Room& room);
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
