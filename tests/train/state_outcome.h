#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "support/train_steps.h"
#include <gtest/gtest.h>

#include "cleave/base/tensor_sum.h"

namespace cleave::testing {

/// What a few steps leave behind, and whether memory and traffic were as planned.
struct StateOutcome {
  std::map<std::string, std::uint64_t> weights;  ///< sums, by tensor
  std::map<std::string, std::uint64_t> slots;    ///< sums, by parameter and slot
  std::vector<double> losses;
  std::int64_t planned = 0;  ///< bytes, all devices
  bool as_planned = true;

  /// The same run on other devices.
  bool agrees_with(const StateOutcome& other) const {
    return weights == other.weights && slots == other.slots && losses == other.losses;
  }
};

/// Four steps of four microbatches over two data shards, without clipping.
inline StateOutcome train_state(const Graph& model, const engine::OptimizerKind& kind,
                                const engine::Layout& layout, int tensor_shards = 1) {
  constexpr int kSteps = 4;
  constexpr int kMicrobatches = 4;
  const train::TrainConfig config{.steps = kSteps, .lr = 1e-2, .warmup = 1, .clip = 0};
  const int microbatches = kMicrobatches / layout.data;
  const engine::CompiledStep step =
      engine::compile(model, {.layout = layout,
                              .microbatches = microbatches,
                              .data_shards = 2,
                              .tensor_shards = tensor_shards,
                              .optimizer = &kind,
                              .hyper = train::hyper_of(config, kind)});
  StateOutcome outcome;
  train_steps(
      step,
      {.config = config, .optimizer = &kind, .loss_scale = 1.0f / (kMicrobatches * kSequence)},
      [&](int device, const engine::StepResult& result, const comm::Sent& sent) {
        outcome.as_planned = outcome.as_planned && sent == step.traffic[device];
        if (device == 0) outcome.losses.push_back(result.loss);
      },
      [&](engine::Device& device, comm::Communicator& world) {
        outcome.planned += step.planned_on(world.rank());
        outcome.as_planned =
            outcome.as_planned && device.arena().peak() == step.planned_on(world.rank());
        if (!device.is_owner()) return;
        for (const auto& [name, sum] : device.weight_hashes()) outcome.weights[name] += sum;
        for (const engine::TensorState& tensor : device.tensors()) {
          for (const engine::SlotState& slot : tensor.slots) {
            tensor.for_each_run(slot.values, [&](std::int64_t first, std::span<float> run) {
              outcome.slots[tensor.name + "." + std::string(slot.name)] +=
                  tensor_sum(std::as_bytes(run), first);
            });
          }
        }
      });
  return outcome;
}

/// Layouts of two and four devices that must give the bits of one: by pipeline and data, and those
/// that divide tensors too.
inline const std::vector<engine::Layout> kWholeTensors = {
    {.pipeline = 2},
    {.pipeline = 2, .schedule = "zb-h1"},
    {.pipeline = 2, .schedule = "zbv", .recompute = {schedule::Recompute::Selective}},
    {.data = 2, .zero = 1, .recompute = {schedule::Recompute::Full}},
    {.pipeline = 2, .data = 2, .zero = 2},
    {.pipeline = 2, .data = 2, .schedule = "zb-h1", .zero = 3},
};
inline const std::vector<engine::Layout> kCutTensors = {
    {.tensor = 2},
    {.pipeline = 2, .data = 2, .tensor = 2, .zero = 3},
    {.data = 2, .tensor = 2, .sequence_parallel = true, .schedule = "zb-h1", .zero = 2},
};

/// Every layout of `all` has the state of one device, in the memory that was planned for it.
inline void expect_state_of_one(const Graph& model, const std::vector<engine::Layout>& all,
                                int tensor_shards) {
  const engine::OptimizerKind& adamw = engine::find_optimizer("adamw");
  const StateOutcome one = train_state(model, adamw, {}, tensor_shards);
  EXPECT_TRUE(one.as_planned);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const StateOutcome many = train_state(model, adamw, all[i], tensor_shards);
    EXPECT_TRUE(many.agrees_with(one)) << "layout " << i << " of " << tensor_shards;
    EXPECT_TRUE(many.as_planned) << "layout " << i << " of " << tensor_shards;
  }
}

}  // namespace cleave::testing
