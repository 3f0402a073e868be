#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "support/tiny_model.h"

#include "cleave/base/tensor_sum.h"
#include "cleave/comm/local/local_world.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::train {

// Sanitizers look at the first steps only: the later ones take the same paths.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr int kSteps = 2;
#else
inline constexpr int kSteps = 20;
#endif
inline constexpr int kMicrobatches = 8;  // of the whole step
inline constexpr int kDataShards = 4;
inline constexpr int kTensorShards = 4;

struct Outcome {
  std::string weights;
  std::map<std::string, std::uint64_t> gradients;  // of the first step
  std::vector<double> losses;
  std::int64_t parameters = 0;
  bool as_planned = true;  // bytes of memory
  bool sent_as_planned = true;
};

inline Outcome train(const model::Family* kind, DType dtype, const engine::Layout& layout,
                     int tensor_shards = 1, int steps = kSteps) {
  const int microbatches = kMicrobatches / layout.data;
  const engine::CompiledStep step =
      engine::compile(testing::tiny_model(kind, dtype), {.layout = layout,
                                                         .microbatches = microbatches,
                                                         .data_shards = kDataShards,
                                                         .tensor_shards = tensor_shards});

  std::mutex mutex;
  Outcome outcome;
  std::vector<std::pair<std::string, std::uint64_t>> hashes;
  comm::run_devices(step.devices(), [&](comm::Communicator& world) {
    const int index = world.rank();
    const int replica = step.replica_of(index);
    engine::Device device(step, index, 1, world);
    device.initialise(7);
    RunOptimizer optimizer({.steps = kSteps, .lr = 1e-2, .warmup = 3});
    for (int s = 0; s < steps; ++s) {
      testing::ReplicaSource source(replica * microbatches, s);
      optimizer.begin_step(s);
      const comm::Sent before = world.sent();
      const auto result = device.executor().run(
          {.source = &source, .optimizer = &optimizer, .loss_scale = 1.0f / (kMicrobatches * 16)});
      const std::lock_guard lock(mutex);
      outcome.sent_as_planned =
          outcome.sent_as_planned && world.sent() - before == step.traffic[index];
      if (index == 0) outcome.losses.push_back(result.loss);
      if (s > 0 || !device.is_owner()) continue;
      for (const engine::TensorState& t : device.tensors()) {
        if (!t.trained()) continue;
        t.for_each_run(t.gradient, [&](std::int64_t first, std::span<float> run) {
          outcome.gradients[t.name] += tensor_sum(std::as_bytes(run), first);
        });
      }
    }
    const std::lock_guard lock(mutex);
    outcome.as_planned = outcome.as_planned && device.arena().peak() == step.planned_on(index);
    if (!device.is_owner()) return;
    outcome.parameters += device.parameter_count();
    for (auto& hash : device.weight_hashes()) hashes.push_back(hash);
  });
  outcome.weights = engine::combine_hashes(hashes);
  return outcome;
}

}  // namespace cleave::train
