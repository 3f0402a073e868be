// An optimizer from outside of cleave is one row: what it keeps beside a parameter, and what it
// does with it. Memory, sharing among replicas, hashes and traffic follow.

#include <map>
#include <mutex>

#include "support/tiny_model.h"
#include <gtest/gtest.h>

#include "cleave/base/tensor_sum.h"
#include "cleave/comm/local/local_world.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/ops/elementwise.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::train {
namespace {

constexpr int kSteps = 4;
constexpr int kMicrobatches = 4;  // of the whole step
constexpr int kShards = 2;

/// Moves by a trace of the gradients; matrices also count how often they were moved.
engine::OptimizerKind tracing() {
  return {.name = "tracing",
          .slots =
              [](const ParameterSpec& parameter, const engine::Hyper&) {
                return parameter.shape.rank() > 1 ? std::vector<std::string>{"trace", "moves"}
                                                  : std::vector<std::string>{"trace"};
              },
          .update =
              [](ops::Compute& compute, const engine::ParameterState& parameter,
                 const engine::UpdateStep& at) {
                const auto scale = static_cast<float>(at.gradient_scale);
                const auto lr = static_cast<float>(at.lr);
                float* trace = parameter.slot("trace").as<float>();
                for (std::int64_t i = 0; i < parameter.elements(); ++i) {
                  trace[i] = trace[i] * 0.5f + parameter.gradient.as<float>()[i] * scale;
                  parameter.master.as<float>()[i] -= lr * trace[i];
                }
                if (parameter.slots.size() > 1) {
                  float* moves = parameter.slot("moves").as<float>();
                  for (std::int64_t i = 0; i < parameter.elements(); ++i) moves[i] += 1;
                }
                if (parameter.value.bytes() != parameter.master.bytes())
                  ops::copy(compute, parameter.master, parameter.value);
              }};
}

struct OwnOutcome {
  std::string weights;
  std::map<std::string, std::uint64_t> slots;  // sums, by parameter and slot
  bool as_planned = true;
};

OwnOutcome train_own(const engine::Layout& layout, DType dtype) {
  const engine::OptimizerKind kind = tracing();
  const int microbatches = kMicrobatches / layout.data;
  const engine::CompiledStep step = engine::compile(testing::tiny_model(&model::llama, dtype, 3),
                                                    {.layout = layout,
                                                     .microbatches = microbatches,
                                                     .data_shards = kShards,
                                                     .tensor_shards = kShards,
                                                     .optimizer = &kind});
  std::mutex mutex;
  OwnOutcome outcome;
  std::vector<std::pair<std::string, std::uint64_t>> hashes;
  comm::run_devices(step.devices(), [&](comm::Communicator& world) {
    engine::Device device(step, world.rank(), 1, world);
    device.initialise(7);
    device.clear_slots();
    RunOptimizer optimizer({.steps = kSteps, .lr = 1e-2, .warmup = 1}, kind);
    bool sent_as_planned = true;
    for (int s = 0; s < kSteps; ++s) {
      testing::ReplicaSource source(step.replica_of(world.rank()) * microbatches, s);
      optimizer.begin_step(s);
      const comm::Sent before = world.sent();
      device.executor().run(
          {.source = &source, .optimizer = &optimizer, .loss_scale = 1.0f / (kMicrobatches * 16)});
      sent_as_planned = sent_as_planned && world.sent() - before == step.traffic[world.rank()];
    }
    const std::lock_guard lock(mutex);
    outcome.as_planned = outcome.as_planned && sent_as_planned &&
                         device.arena().peak() == step.planned_on(world.rank());
    if (!device.is_owner()) return;
    for (auto& hash : device.weight_hashes()) hashes.push_back(hash);
    for (const engine::TensorState& tensor : device.tensors()) {
      for (const engine::SlotState& slot : tensor.slots) {
        tensor.for_each_run(slot.values, [&](std::int64_t first, std::span<float> run) {
          outcome.slots[tensor.name + "." + std::string(slot.name)] +=
              tensor_sum(std::as_bytes(run), first);
        });
      }
    }
  });
  outcome.weights = engine::combine_hashes(hashes);
  return outcome;
}

TEST(OwnOptimizer, GivesTheBitsOfOneDeviceInEveryLayout) {
  for (const DType dtype : {DType::F32, DType::BF16}) {
    const OwnOutcome one = train_own({}, dtype);
    EXPECT_TRUE(one.as_planned);
    EXPECT_EQ(one.slots.count("model.norm.weight.trace"), 1);
    EXPECT_EQ(one.slots.count("model.norm.weight.moves"), 0);
    EXPECT_EQ(one.slots.count("lm_head.weight.moves"), 1);
    for (const int zero : {0, 1, 2, 3}) {
      const OwnOutcome many =
          train_own({.pipeline = 2, .data = 2, .tensor = 2, .zero = zero}, dtype);
      EXPECT_EQ(many.weights, one.weights) << "zero " << zero;
      EXPECT_EQ(many.slots, one.slots) << "zero " << zero;
      EXPECT_TRUE(many.as_planned) << "zero " << zero;
    }
  }
}

// A slot that half of the elements have takes the room of half of them.
TEST(OwnOptimizer, KeepsNoMoreThanItsSlots) {
  const engine::OptimizerKind kind = tracing();
  const Graph model = testing::tiny_model(&model::llama, DType::F32, 3);
  const engine::CompiledStep step = engine::compile(model, {.optimizer = &kind});
  std::int64_t elements = 0;
  for (const SegmentSpec& segment : model.segments) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters)
        elements += parameter.elements() * (parameter.shape.rank() > 1 ? 2 : 1);
    }
  }
  EXPECT_EQ(step.memory[0].optimizer, elements * 4);
}

}  // namespace
}  // namespace cleave::train
