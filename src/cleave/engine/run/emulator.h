#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/plan/time/costs.h"
#include "cleave/schedule/program.h"

namespace cleave::engine {

/// Sleeps where a device would compute, and meets others where it would exchange parameters or
/// gradients with them, so that many devices can be measured on few cores.
class Emulator {
 public:
  /// `program` must outlive the emulator. `costs` in seconds. To be made by the thread of its
  /// device, by all devices at the same time: it asks the system for exact sleeps, and groups are
  /// formed of `peers`, the devices by place. Those at the same place, in `group`, wait for each
  /// other behind every pass.
  Emulator(const schedule::Program& program, plan::Costs costs, int place,
           comm::Communicator& peers, comm::Communicator& group);

  /// Takes as long as the costs say, from now on. What is posted goes on until its WAIT, as in
  /// training.
  void run(const schedule::Instruction& instruction);

 private:
  using Clock = std::chrono::steady_clock;

  /// A GATHER, REDUCE or REFRESH; it ends a while after its last member is there.
  struct EmulatedCollective {
    schedule::Instruction instruction;
    comm::Pending meeting;
    Clock::time_point end;
  };

  Clock::duration seconds_of(const schedule::Instruction& instruction) const;
  void look();
  void finish(const schedule::Instruction& wait);

  const schedule::Program* program_;
  plan::Costs costs_;
  int place_;
  comm::Communicator& group_;
  std::vector<std::unique_ptr<comm::Communicator>> replicas_;  ///< [stage], null: elsewhere
  std::vector<EmulatedCollective> exchanges_;
};

}  // namespace cleave::engine
