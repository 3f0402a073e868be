#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/engine/stage/stage.h"

namespace cleave::engine {

/// Makes the values of parameters whole again that replicas have shares of.
class ParameterSync {
 public:
  /// `replicas`: [stage] the devices that hold it, null where it is not on this one.
  ParameterSync(std::span<Stage* const> stages, std::vector<comm::Communicator*> replicas);

  /// REFRESH: every replica has updated its share of a stage, and posts that it gets those of the
  /// others. Nothing where values are gathered for each use.
  void refresh(int stage);

  /// WAIT:REFRESH.
  void finish(int stage);

  /// REFRESH of all stages, to the end. All replicas call it.
  void refresh_all();

  /// GATHER: posts the values of a segment, into `whole`; they arrive behind what is computed
  /// meanwhile.
  void gather(int stage, int segment, std::span<std::byte> whole);

  /// WAIT:GATHER.
  void finish(int stage, int segment);

 private:
  struct Gathering {
    int stage = -1;
    int segment = -1;
    comm::Pending pending;
  };

  void post(int stage, int segment, const plan::ShareRun& run, std::byte* whole);
  void finish_if(const auto& mine);

  std::vector<Stage*> stages_;
  std::vector<comm::Communicator*> replicas_;
  std::vector<Gathering> gatherings_;  ///< in flight
  std::vector<std::size_t> borders_;   ///< of the run being posted
};

}  // namespace cleave::engine
