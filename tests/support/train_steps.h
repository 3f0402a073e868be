#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "support/tiny_model.h"

#include "cleave/comm/local/local_world.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::testing {

/// The weights of a model by tensor, or parts of them, as their owners hash them.
using Hashes = std::vector<std::pair<std::string, std::uint64_t>>;

/// What is the same for every device of a short training.
struct TrainedSteps {
  train::TrainConfig config;  ///< has how many
  const engine::OptimizerKind* optimizer = &engine::find_optimizer("adamw");
  float loss_scale = 1;
  engine::Search search = engine::Search::Off;
};

/// Runs a compiled step as often as asked for, each device in a thread of its own, from weights of
/// one seed. Calls after_step(device, result, sent) for each step, with the number of the device
/// and the bytes that it sent, and at_end(device, world) once for each device; one at a time.
template <class AfterStep, class AtEnd>
void train_steps(const engine::CompiledStep& step, const TrainedSteps& how,
                 const AfterStep& after_step, const AtEnd& at_end) {
  std::mutex mutex;
  comm::run_devices(step.devices(), [&](comm::Communicator& world) {
    const int index = world.rank();
    engine::Device device(step, index, 1, world);
    device.initialise(7);
    device.clear_slots();
    train::RunOptimizer optimizer(how.config, *how.optimizer);
    for (int s = 0; s < how.config.steps; ++s) {
      ReplicaSource source(step.replica_of(index) * step.program.microbatches, s);
      optimizer.begin_step(s);
      const comm::Sent before = world.sent();
      const engine::StepResult result = device.executor().run({.source = &source,
                                                               .optimizer = &optimizer,
                                                               .loss_scale = how.loss_scale,
                                                               .search = how.search});
      const comm::Sent sent = world.sent() - before;
      const std::lock_guard lock(mutex);
      after_step(index, result, sent);
    }
    const std::lock_guard lock(mutex);
    at_end(device, world);
  });
}

}  // namespace cleave::testing
