#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "cleave/engine/run/emulated_memory.h"
#include "cleave/engine/run/emulator.h"
#include "cleave/engine/run/executor.h"
#include "cleave/ops/compute.h"
#include "cleave/plan/time/costs.h"
#include "cleave/schedule/program.h"
#include "cleave/tensor/arena.h"

namespace cleave::engine {

/// What devices take that sleep: per device and microbatch, as in plan::UniformCosts.
struct EmulatedTimes {
  double f = 0;  ///< seconds
  double i = 0;
  double w = 0;
  double link = 0;              ///< that a message takes, and a credit before it
  double outside_per_byte = 0;  ///< that OUT and IN take
  std::vector<double> speed;    ///< [place], relative; empty: all 1
  /// [segment] of the model: seconds per microbatch at speed 1, in place of f, i and w of a stage;
  /// empty: these.
  std::vector<plan::StageCosts> segments = {};
};

/// A lowered program with buffers for its messages and nothing else, as emulated devices run it.
void plan_messages(schedule::Program& program);

/// What the simulator needs to know: a stage on several devices is as slow as the slowest.
plan::Costs emulated_costs(const schedule::Program& program, const EmulatedTimes& times);

/// What the devices at `place` take, for any stage.
plan::Costs emulated_costs(const schedule::Program& program, const EmulatedTimes& times, int place);

/// Whom an emulated device talks to.
struct EmulatedGroups {
  comm::Communicator& world;  ///< all devices: NORM
  Peers peers;                ///< at other places: messages
  comm::Communicator& group;  ///< at the same place: a tensor group
};

/// A device without layers: its list, its messages and its waits are real; its compute is sleep,
/// and so is what it moves out and back.
class EmulatedDevice {
 public:
  /// `program` and `groups` must outlive the device; made by the thread that runs it. `costs` in
  /// seconds: what this device takes.
  EmulatedDevice(const schedule::Program& program, plan::Costs costs, int place,
                 const EmulatedGroups& groups, Emulator::Jitter jitter = {});
  /// One device at every place.
  EmulatedDevice(const schedule::Program& program, plan::Costs costs, int place,
                 comm::Communicator& world, Emulator::Jitter jitter = {});

  Executor& executor() { return executor_; }
  const Arena& arena() const { return arena_; }
  const Arena& outside() const { return outside_; }

 private:
  EmulatedDevice(const schedule::Program& program, plan::Costs costs, int place,
                 comm::Communicator& world, Emulator::Jitter jitter,
                 std::unique_ptr<comm::Communicator> alone);

  std::unique_ptr<comm::Communicator> alone_;  ///< its tensor group, where there is no other
  Peers peers_;
  ops::Compute compute_;
  Arena arena_;
  EmulatedMemory outside_memory_;
  Arena outside_;
  Emulator emulator_;
  Executor executor_;
};

}  // namespace cleave::engine
