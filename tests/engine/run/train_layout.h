#pragma once

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

inline constexpr int kTotal = 8;  // microbatches of a step
inline constexpr int kTrainedSteps = 4;

/// What a few steps came to.
struct Outcome {
  std::string weights;
  double loss = 0;
  bool as_planned = true;  // bytes of memory
  bool sent_as_planned = true;
};

/// Trains a graph on devices of this process, on two data shards and two tensor shards.
inline Outcome train_layout(const Graph& graph, const engine::Layout& layout) {
  const int microbatches = kTotal / layout.data;
  const engine::CompiledStep step = engine::compile(
      graph,
      {.layout = layout, .microbatches = microbatches, .data_shards = 2, .tensor_shards = 2});
  const float scale = 1.0f / static_cast<float>(kTotal * loss_count(graph));
  std::mutex mutex;
  Outcome outcome;
  std::vector<std::pair<std::string, std::uint64_t>> hashes;
  comm::run_devices(step.devices(), [&](comm::Communicator& world) {
    const int index = world.rank();
    engine::Device device(step, index, 1, world);
    device.initialise(7);
    train::RunOptimizer optimizer({.steps = kTrainedSteps, .lr = 1e-2, .warmup = 1});
    engine::StepResult result;
    bool sent = true;
    for (int s = 0; s < kTrainedSteps; ++s) {
      ReplicaSource source(step.replica_of(index) * microbatches, s);
      optimizer.begin_step(s);
      const comm::Sent before = world.sent();
      result = device.executor().run({.source = &source,
                                      .optimizer = &optimizer,
                                      .loss_scale = scale,
                                      .search = engine::Search::NonFinite});
      sent = sent && world.sent() - before == step.traffic[index];
    }
    const std::lock_guard lock(mutex);
    outcome.loss = result.loss;
    outcome.sent_as_planned = outcome.sent_as_planned && sent;
    outcome.as_planned = outcome.as_planned && device.arena().peak() == step.planned_on(index);
    if (!device.is_owner()) return;
    for (auto& hash : device.weight_hashes()) hashes.push_back(hash);
  });
  outcome.weights = engine::combine_hashes(hashes);
  return outcome;
}

}  // namespace cleave::testing
