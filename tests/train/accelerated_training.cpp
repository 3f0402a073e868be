#include "train/accelerated_training.h"

#include <cstdlib>
#include <mutex>

#include "support/tiny_model.h"

#include "cleave/comm/local/local_world.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::testing {
namespace {

using cleave::train::RunOptimizer;
using cleave::train::TrainConfig;

/// PoCL shows as many devices as this says; other drivers do not look at it. Before the first call.
const int kTwoDevices = setenv("POCL_DEVICES", "pthread pthread", 0);

}  // namespace

Graph two_layers(const model::Family* kind, DType dtype) {
  return tiny_model(kind, dtype, /*layers=*/2);
}

Outcome train(const Training& t) {
  const int microbatches = kMicrobatches / t.layout.data;
  const engine::OptimizerKind& optimizer_kind = engine::find_optimizer(t.optimizer);
  TrainConfig config{.steps = kSteps, .lr = 1e-2, .warmup = 1};
  config.optimizer = t.optimizer;
  const engine::CompiledStep step =
      engine::compile(t.model, {.layout = t.layout,
                                .microbatches = microbatches,
                                .data_shards = kShards,
                                .tensor_shards = t.tensor_shards,
                                .device_kinds = t.devices,
                                .arithmetic = t.arithmetic,
                                .optimizer = &optimizer_kind,
                                .hyper = hyper_of(config, optimizer_kind)});
  std::mutex mutex;
  Outcome outcome;
  std::vector<std::pair<std::string, std::uint64_t>> hashes;
  comm::run_devices(step.devices(), [&](comm::Communicator& world) {
    const int index = world.rank();
    engine::Device device(step, index, 1, world);
    device.initialise(7);
    RunOptimizer optimizer(config);
    for (int s = 0; s < kSteps; ++s) {
      ReplicaSource source(step.replica_of(index) * microbatches, s);
      optimizer.begin_step(s);
      const auto result = device.executor().run(
          {.source = &source, .optimizer = &optimizer, .loss_scale = 1.0f / (kMicrobatches * 16)});
      const std::lock_guard lock(mutex);
      if (index == 0) outcome.losses.push_back(result.loss);
    }
    const std::lock_guard lock(mutex);
    outcome.as_planned = outcome.as_planned && device.arena().peak() == step.planned_on(index) &&
                         device.host().peak() == device.executor().planned_host_bytes() &&
                         device.host().peak() <= step.host_on(index);
    outcome.on_host += device.host().peak();
    outcome.unplanned += world.unplanned_host_bytes();
    if (!device.is_owner()) return;
    for (auto& hash : device.weight_hashes()) hashes.push_back(hash);
  });
  outcome.weights = engine::combine_hashes(hashes);
  return outcome;
}

}  // namespace cleave::testing
