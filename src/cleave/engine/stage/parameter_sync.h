#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cleave/base/id.h"
#include "cleave/comm/communicator.h"
#include "cleave/engine/stage/stage.h"

namespace cleave::engine {

/// Makes the values of parameters whole again that replicas have shares of.
class ParameterSync {
 public:
  /// `replicas`: [stage] the devices that hold it, null where it is not on this one.
  ParameterSync(std::span<Stage* const> stages, std::vector<comm::Communicator*> replicas);

  /// REFRESH: every replica has updated its share of a stage, and posts that it gets those of the
  /// others. Nothing where values are gathered for each use. `on_host`: what it passes through
  /// where no message reaches the device's memory.
  void refresh(int stage, std::span<std::byte> on_host);

  /// WAIT:REFRESH.
  void finish(int stage);

  /// GATHER: posts the values of a segment, into `whole`; they arrive while other things are
  /// computed.
  void gather(StageId stage, SegmentId segment, std::span<std::byte> whole,
              std::span<std::byte> on_host);

  /// WAIT:GATHER.
  void finish(StageId stage, SegmentId segment);

  /// What GATHER, and this segment's part of REFRESH, pass through on the host.
  static std::int64_t gather_host_bytes(const plan::StateLayout& state, int segment);
  static std::int64_t refresh_host_bytes(const plan::StateLayout& state, int segment);

 private:
  struct Gathering {
    StageId stage;
    SegmentId segment;
    comm::Pending pending;
  };

  /// Takes what it passes through from the front of `on_host`.
  void post(StageId stage, SegmentId segment, const plan::ShareRun& run, std::byte* whole,
            std::span<std::byte>& on_host);
  void finish_if(const auto& mine);

  std::vector<Stage*> stages_;
  std::vector<comm::Communicator*> replicas_;
  std::vector<Gathering> gatherings_;  ///< in flight
  std::vector<std::size_t> borders_;   ///< of the run being posted
};

}  // namespace cleave::engine
