#pragma once

#include "cleave/engine/run/device.h"
#include "cleave/train/step/random_source.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::app {

/// A device that trains on random tokens: what a benchmark runs steps on.
class TrialDevice {
 public:
  TrialDevice(const engine::CompiledStep& step, int threads, comm::Communicator& world);

  /// Runs one step, and says how many seconds it took.
  double step();

 private:
  engine::Device device_;
  train::RunOptimizer optimizer_;
  train::RandomSource source_;
  float loss_scale_;
  std::int64_t steps_ = 0;
};

}  // namespace cleave::app
