#pragma once

#include <vector>

#include "cleave/ops/compute.h"
#include "cleave/plan/costs.h"
#include "cleave/runtime/emulator.h"
#include "cleave/runtime/executor.h"
#include "cleave/schedule/program.h"
#include "cleave/tensor/arena.h"

namespace cleave::runtime {

/// What devices take that sleep: per device and microbatch, as in plan::UniformCosts.
struct EmulatedTimes {
  double f = 0;  ///< seconds
  double i = 0;
  double w = 0;
  std::vector<double> speed;        ///< [device], relative; empty: all 1
  std::vector<double> shares = {};  ///< [stage] of the work, 1 on average; empty: all 1
};

/// A lowered program with buffers for its messages and nothing else, as emulated devices run it.
void plan_messages(schedule::Program& program);

/// What the simulator needs to know: a stage on several devices is as slow as the slowest.
plan::Costs emulated_costs(const schedule::Program& program, const EmulatedTimes& times);

/// What `device` takes, for any stage.
plan::Costs emulated_costs(const schedule::Program& program, const EmulatedTimes& times,
                           int device);

/// A device without layers: its list, its messages and its waits are real, its compute is sleep.
class EmulatedDevice {
 public:
  /// `program` and `world` must outlive the device; made by the thread that runs it. `costs` in
  /// seconds: what this device takes.
  EmulatedDevice(const schedule::Program& program, plan::Costs costs, int index,
                 comm::Communicator* world = nullptr);

  Executor& executor() { return executor_; }
  const Arena& arena() const { return arena_; }

 private:
  ops::Compute compute_;
  Arena arena_;
  Emulator emulator_;
  Executor executor_;
};

}  // namespace cleave::runtime
