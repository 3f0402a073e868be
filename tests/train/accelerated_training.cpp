#include "train/accelerated_training.h"

#include <cstdlib>

#include "support/train_steps.h"

namespace cleave::testing {
namespace {

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
  Outcome outcome;
  Hashes hashes;
  train_steps(
      step,
      {.config = config, .optimizer = &optimizer_kind, .loss_scale = 1.0f / (kMicrobatches * 16)},
      [&](int device, const engine::StepResult& result, const comm::Sent&) {
        if (device == 0) outcome.losses.push_back(result.loss);
      },
      [&](engine::Device& device, comm::Communicator& world) {
        const int index = world.rank();
        outcome.as_planned = outcome.as_planned &&
                             device.arena().peak() == step.planned_on(index) &&
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
