#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/engine/run/linked_program.h"
#include "cleave/plan/time/costs.h"
#include "cleave/schedule/program.h"

namespace cleave::engine {

/// Sleeps where a device would compute, and meets others where it would exchange parameters or
/// gradients with them, so that many devices can be measured on few cores.
class Emulator {
 public:
  /// Seconds that a pass takes beyond its costs, as no two passes of a real device take the same.
  using Jitter = std::function<double(const schedule::Instruction& pass)>;

  /// `program` must outlive the emulator. `costs` in seconds. To be made by the thread of its
  /// device, by all devices at the same time: it asks the system for exact sleeps, and groups are
  /// formed of `peers`. Those at the same place, in `group`, wait for each other after every pass.
  Emulator(const schedule::Program& program, plan::Costs costs, int place, const Peers& peers,
           comm::Communicator& group, Jitter jitter = {});

  /// Takes as long as the costs say, from now on. What is posted goes on until its WAIT, as in
  /// training.
  void run(const schedule::Instruction& instruction);

  /// Before a SEND or a RECV is posted, and after the message of a WAIT(recv) is there: it takes as
  /// long as its link does. A message has no content, so it carries the time of its SEND; devices
  /// are on one host, which has one clock.
  void before_post(const LinkedInstruction& posted);
  void after_wait(const LinkedInstruction& wait);

 private:
  using Clock = std::chrono::steady_clock;

  /// A message that this device has posted a RECV for.
  struct EmulatedArrival {
    int edge = 0;
    Clock::time_point posted;
    std::span<const std::byte> message;
  };

  /// A GATHER, REDUCE or REFRESH; it ends a while after its last member is there.
  struct EmulatedCollective {
    schedule::Instruction instruction;
    comm::Pending meeting;
    Clock::time_point end;
  };

  Clock::duration seconds_of(const schedule::Instruction& instruction) const;
  void look();
  void finish(const schedule::Instruction& wait);
  bool has_slow_link(const schedule::Instruction& message) const;

  const schedule::Program* program_;
  plan::Costs costs_;
  int place_;
  comm::Communicator& group_;
  Jitter jitter_;                                              ///< empty: none
  std::vector<std::unique_ptr<comm::Communicator>> replicas_;  ///< [stage], null: elsewhere
  std::vector<EmulatedCollective> exchanges_;
  std::vector<EmulatedArrival> arrivals_;  ///< [slot of a message in flight]
};

}  // namespace cleave::engine
