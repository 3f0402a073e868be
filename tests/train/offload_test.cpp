// Activations that leave a device's memory until the backward pass, and optimizer state that is
// there for its part of STEP only: the weights, slots and losses are those of a run that keeps
// them, what is planned is what is used, inside and outside.

#include <string>
#include <vector>

#include "support/errors.h"
#include "support/temporary_directory.h"
#include "support/train_steps.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/base/tensor_sum.h"

namespace cleave::train {
namespace {

using schedule::Offload;
using testing::tiny_model;

constexpr int kOffloadMicrobatches = 4;
constexpr int kShards = 2;
constexpr int kOffloadSteps = 2;

struct OffloadOutcome {
  std::string weights;
  std::string slots;  // of the optimizer
  std::vector<double> losses;
  std::int64_t peak = 0;     // of the largest device
  std::int64_t outside = 0;  // of all devices
};

engine::CompileOptions options_of(const engine::Layout& layout) {
  return {.layout = layout,
          .microbatches = kOffloadMicrobatches / layout.data,
          .data_shards = kShards,
          .tensor_shards = kShards,
          .arithmetic = ops::Arithmetic::Exact};
}

/// Trains, and expects to use what was planned.
OffloadOutcome train_step(const engine::CompiledStep& step) {
  const TrainConfig config{.steps = kOffloadSteps, .lr = 1e-2, .warmup = 1};
  OffloadOutcome outcome;
  testing::Hashes hashes;
  testing::Hashes slots;
  testing::train_steps(
      step, {.config = config, .loss_scale = 1.0f / (kOffloadMicrobatches * 16)},
      [&](int device, const engine::StepResult& result, const comm::Sent&) {
        if (device == 0) outcome.losses.push_back(result.loss);
      },
      [&](engine::Device& device, comm::Communicator& world) {
        EXPECT_EQ(device.arena().peak(), step.planned_on(world.rank()));
        EXPECT_EQ(device.outside().peak(), step.outside_on(world.rank()));
        outcome.peak = std::max(outcome.peak, device.arena().peak());
        outcome.outside += device.outside().peak();
        if (!device.is_owner()) return;
        for (auto& hash : device.weight_hashes()) hashes.push_back(hash);
        for (const engine::TensorState& tensor : device.tensors())
          for (const engine::SlotState& slot : tensor.slots)
            tensor.for_each_run(slot.values, [&](std::int64_t first, std::span<float> run) {
              slots.emplace_back(tensor.name + "." + std::string(slot.name),
                                 tensor_sum(std::as_bytes(run), first));
            });
      });
  outcome.slots = engine::combine_hashes(slots);
  outcome.weights = engine::combine_hashes(hashes);
  return outcome;
}

std::vector<engine::Layout> layouts() {
  using schedule::Recompute;
  return {{},
          {.schedule = "gpipe"},
          {.pipeline = 2},
          {.pipeline = 2, .schedule = "zb-h1"},
          {.pipeline = 2, .chunks = 2, .schedule = "interleaved"},
          {.tensor = 2, .schedule = "gpipe"},
          {.data = 2, .schedule = "gpipe", .zero = 1},
          {.data = 2, .schedule = "gpipe", .zero = 3},
          {.schedule = "gpipe", .recompute = {Recompute::Selective}}};
}

void expect_same_bits_in_any_layout(Offload offload) {
  for (const model::Family* family : {&model::gpt, &model::llama}) {
    for (const DType dtype : {DType::F32, DType::BF16}) {
      const Graph model = tiny_model(family, dtype, /*layers=*/4);
      const OffloadOutcome kept = train_step(engine::compile(model, options_of({})));
      for (engine::Layout layout : layouts()) {
        SCOPED_TRACE(layout.schedule + ", pipeline " + std::to_string(layout.pipeline) + ", data " +
                     std::to_string(layout.data) + ", tensor " + std::to_string(layout.tensor));
        layout.offload = offload;
        const OffloadOutcome moved = train_step(engine::compile(model, options_of(layout)));
        EXPECT_EQ(moved.weights, kept.weights);
        EXPECT_EQ(moved.slots, kept.slots);
        EXPECT_EQ(moved.losses, kept.losses);
        EXPECT_GT(moved.outside, 0);
      }
    }
  }
}

TEST(Offload, OfActivationsChangesNoBitInAnyLayout) {
  expect_same_bits_in_any_layout(Offload::Activations);
}

TEST(Offload, OfOptimizerStateChangesNoBitInAnyLayout) {
  expect_same_bits_in_any_layout(Offload::Optimizer);
}

TEST(Offload, OfBothChangesNoBitInAnyLayout) {
  expect_same_bits_in_any_layout(Offload::Both);
}

/// Much of what a step needs is activations.
Graph long_model() {
  ModelShape shape = testing::tiny_shape(&model::gpt, /*layers=*/8);
  return model::graph_of(shape, {.sequences = 8, .sequence = testing::kSequence});
}

TEST(Offload, TrainsWithinBudgetsThatThePlanWithoutItExceeds) {
  engine::CompileOptions options = options_of({.schedule = "gpipe"});
  const OffloadOutcome kept = train_step(engine::compile(long_model(), options));
  options.budgets = {kept.peak * 10 / 16};
  EXPECT_THROW(engine::compile(long_model(), options), DoesNotFit);

  options.layout.offload.reset();  // "auto"
  const engine::CompiledStep step = engine::compile(long_model(), options);
  const OffloadOutcome moved = train_step(step);

  EXPECT_LE(moved.peak, options.budgets[0]);
  EXPECT_GT(moved.outside, 0);
  EXPECT_EQ(moved.weights, kept.weights);
}

TEST(Offload, AutoMovesNothingThatFits) {
  engine::CompileOptions options = options_of({.schedule = "gpipe"});
  const std::int64_t needed = engine::compile(long_model(), options).planned_on(0);
  options.budgets = {needed};
  options.layout.offload.reset();
  EXPECT_EQ(engine::compile(long_model(), options).outside_on(0), 0);
}

TEST(Offload, MovesBesideOneInstructionWhereTwoDoNotFit) {
  engine::CompileOptions options = options_of({.schedule = "gpipe"});
  options.layout.offload = Offload::Activations;
  const std::int64_t beside_two = engine::compile(long_model(), options).planned_on(0);
  options.moves_beside = 1;
  const std::int64_t beside_one = engine::compile(long_model(), options).planned_on(0);
  EXPECT_LT(beside_one, beside_two);

  options.moves_beside = 2;
  options.budgets = {beside_two};
  EXPECT_EQ(engine::compile(long_model(), options).planned_on(0), beside_two);
  options.budgets = {beside_two - 1};
  EXPECT_EQ(engine::compile(long_model(), options).planned_on(0), beside_one);
}

TEST(Offload, KeepsToTheBudgetOutside) {
  engine::CompileOptions options = options_of({.schedule = "gpipe"});
  options.layout.offload = Offload::Activations;
  const std::int64_t needed = engine::compile(long_model(), options).outside_on(0);
  options.outside_budgets = {needed};
  EXPECT_EQ(engine::compile(long_model(), options).outside_on(0), needed);
  options.outside_budgets = {needed - 1};
  EXPECT_THROW(engine::compile(long_model(), options), DoesNotFit);
}

TEST(Offload, GoesToADiskWithTheSameBits) {
  const testing::TemporaryDirectory disk;
  engine::CompileOptions options = options_of({.schedule = "gpipe"});
  const OffloadOutcome kept = train_step(engine::compile(long_model(), options));
  options.layout.offload = Offload::Activations;
  options.spill = disk.path().string();
  EXPECT_EQ(train_step(engine::compile(long_model(), options)).weights, kept.weights);
  EXPECT_TRUE(std::filesystem::is_empty(disk.path()));
}

/// Most of what a step needs is state.
Graph wide_model(DType dtype, std::int64_t layers = 6) {
  ModelShape shape = testing::tiny_shape(&model::llama, layers);
  shape.hidden = 128;
  return model::graph_of(shape, {.sequences = 1, .sequence = testing::kSequence, .dtype = dtype});
}

TEST(Offload, LeavesOutOfADevicesMemoryWhatOnlyTheUpdateReads) {
  for (const DType dtype : {DType::F32, DType::BF16}) {
    engine::CompileOptions options = options_of({});
    const engine::CompiledStep kept = engine::compile(wide_model(dtype), options);
    options.layout.offload = Offload::Optimizer;
    const engine::CompiledStep moved = engine::compile(wide_model(dtype), options);
    // All but three segments' of it: slots in f32, and master weights too in bf16.
    std::int64_t state = 0;
    std::int64_t largest = 0;
    for (const plan::StageMemory& stage : moved.memory) state += stage.optimizer;
    for (const plan::SegmentMemory& segment : moved.memory[0].segments)
      largest = std::max(largest, segment.state);
    EXPECT_EQ(state, kept.memory[0].optimizer / 2 * (dtype == DType::F32 ? 2 : 3));
    EXPECT_LE(moved.planned_on(0), kept.planned_on(0) - state + 3 * (largest + 8192));
    EXPECT_GE(moved.outside_on(0), state);
  }
}

TEST(Offload, OfOptimizerStateToADiskHasTheSameBits) {
  for (const DType dtype : {DType::F32, DType::BF16}) {
    const testing::TemporaryDirectory disk;
    engine::CompileOptions options = options_of({.tensor = 2});
    const OffloadOutcome kept = train_step(engine::compile(wide_model(dtype), options));
    options.layout.offload = Offload::Optimizer;
    options.spill = disk.path().string();
    const OffloadOutcome moved = train_step(engine::compile(wide_model(dtype), options));
    EXPECT_EQ(moved.weights, kept.weights);
    EXPECT_EQ(moved.slots, kept.slots);
  }
}

TEST(Offload, AutoMovesStateWhereStateIsWhatDoesNotFit) {
  const Graph model =
      wide_model(DType::F32, /*layers=*/32);  // three segments' state is a small part
  engine::CompileOptions options = options_of({});
  options.budgets = {engine::compile(model, options).planned_on(0) * 10 / 16};
  EXPECT_THROW(engine::compile(model, options), DoesNotFit);
  options.layout.offload.reset();  // "auto"
  EXPECT_TRUE(engine::compile(model, options).state_moves);
  options.state_may_move = false;
  EXPECT_THROW(engine::compile(model, options), DoesNotFit);
}

TEST(Offload, NamesADirectoryThatCannotBeWritten) {
  engine::CompileOptions options = options_of({.schedule = "gpipe"});
  options.layout.offload = Offload::Activations;
  options.spill = "/nowhere";
  const engine::CompiledStep step = engine::compile(long_model(), options);
  EXPECT_EQ(testing::user_error([&] { train_step(step); }),
            "devices.spill /nowhere: No such file or directory; name a directory that can be "
            "written");
}

}  // namespace
}  // namespace cleave::train
