#pragma once

#include "cleave/plan/costs.h"
#include "cleave/schedule/program.h"

namespace cleave::runtime {

/// Sleeps where a device would compute, so that many devices can be measured on few cores.
class Emulator {
 public:
  /// `program` must outlive the emulator. `costs` in seconds. To be made by the thread of its
  /// device: it asks the system for exact sleeps.
  Emulator(const schedule::Program& program, plan::Costs costs, int device);

  /// Takes as long as the costs say, from now on.
  void run(const schedule::Instruction& instruction);

 private:
  const schedule::Program* program_;
  plan::Costs costs_;
  int device_;
};

}  // namespace cleave::runtime
