#include "bench/trial_device.h"

#include <chrono>

namespace cleave::app {

TrialDevice::TrialDevice(const engine::CompiledStep& step, int threads, comm::Communicator& world)
    : device_(step, world.rank(), threads, world),
      optimizer_({.clip = 1.0}),
      source_(1, step.model),
      loss_scale_(1.0f / static_cast<float>(loss_count(step.model))) {
  device_.initialise(1);
}

double TrialDevice::step() {
  optimizer_.begin_step(steps_++);
  const auto start = std::chrono::steady_clock::now();
  device_.executor().run({.source = &source_, .optimizer = &optimizer_, .loss_scale = loss_scale_});
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace cleave::app
