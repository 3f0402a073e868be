#pragma once

#include <string>

#include "support/train_steps.h"

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
  Outcome outcome;
  Hashes hashes;
  train_steps(
      step,
      {.config = {.steps = kTrainedSteps, .lr = 1e-2, .warmup = 1},
       .loss_scale = 1.0f / static_cast<float>(kTotal * loss_count(graph)),
       .search = engine::Search::NonFinite},
      [&](int device, const engine::StepResult& result, const comm::Sent& sent) {
        outcome.loss = result.loss;
        outcome.sent_as_planned = outcome.sent_as_planned && sent == step.traffic[device];
      },
      [&](engine::Device& device, comm::Communicator& world) {
        outcome.as_planned =
            outcome.as_planned && device.arena().peak() == step.planned_on(world.rank());
        if (!device.is_owner()) return;
        for (auto& hash : device.weight_hashes()) hashes.push_back(hash);
      });
  outcome.weights = engine::combine_hashes(hashes);
  return outcome;
}

}  // namespace cleave::testing
