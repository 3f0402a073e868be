// Tiny models on accelerators, alone, several, and side by side with processors: the weights,
// losses and bytes are those of the processor. Skipped where there is no accelerator.

#include "cleave/ops/accelerator.h"

#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "support/tiny_model.h"
#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::train {
namespace {

using testing::ReplicaSource;
using testing::tiny_model;

constexpr int kMicrobatches = 4;  // of the whole step
constexpr int kShards = 2;        // of data and tensors
constexpr int kSteps = 2;

/// PoCL shows as many devices as this says; other drivers do not look at it. Before the first call.
const int kTwoDevices = setenv("POCL_DEVICES", "pthread pthread", 0);

struct Outcome {
  std::string weights;
  std::vector<double> losses;
  bool as_planned = true;
};

struct Training {
  const model::Family* kind = nullptr;
  DType dtype = DType::F32;
  engine::Layout layout = {};
  std::vector<std::string> devices = {};
  std::string optimizer = "adamw";
  int tensor_shards = kShards;
};

Outcome train(const Training& t) {
  const int microbatches = kMicrobatches / t.layout.data;
  const engine::OptimizerKind& optimizer_kind = engine::find_optimizer(t.optimizer);
  Graph model = tiny_model(t.kind, t.dtype, /*layers=*/2);
  TrainConfig config{.steps = kSteps, .lr = 1e-2, .warmup = 1};
  config.optimizer = t.optimizer;
  const engine::CompiledStep step =
      engine::compile(model, {.layout = t.layout,
                              .microbatches = microbatches,
                              .data_shards = kShards,
                              .tensor_shards = t.tensor_shards,
                              .device_kinds = t.devices,
                              .arithmetic = ops::Arithmetic::Exact,
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
    outcome.as_planned = outcome.as_planned && device.arena().peak() == step.planned_on(index);
    if (!device.is_owner()) return;
    for (auto& hash : device.weight_hashes()) hashes.push_back(hash);
  });
  outcome.weights = engine::combine_hashes(hashes);
  return outcome;
}

struct Case {
  std::string name;
  engine::Layout layout;
  std::vector<std::string> devices;
};

std::vector<Case> cases() {
  using schedule::Recompute;
  return {
      {"one", {}, {"opencl"}},
      {"pipeline 2", {.pipeline = 2}, {"opencl"}},
      {"data 2", {.data = 2}, {"opencl"}},
      {"tensor 2", {.tensor = 2}, {"opencl"}},
      {"tensor 2, sequence parallel", {.tensor = 2, .sequence_parallel = true}, {"opencl"}},
      {"zero 1", {.data = 2, .zero = 1}, {"opencl"}},
      {"zero 3, zb-h1", {.data = 2, .schedule = "zb-h1", .zero = 3}, {"opencl"}},
      {"recompute", {.pipeline = 2, .recompute = {Recompute::Full}}, {"opencl"}},
      {"mixed pipeline", {.pipeline = 2}, {"cpu", "opencl:0"}},
      {"mixed data, zero 2", {.data = 2, .zero = 2}, {"opencl:0", "cpu"}},
      {"mixed tensor", {.tensor = 2}, {"cpu", "opencl"}},
      {"mixed pipeline and data", {.pipeline = 2, .data = 2}, {"cpu", "opencl", "opencl", "cpu"}},
  };
}

class Accelerated : public ::testing::TestWithParam<std::tuple<const model::Family*, DType>> {
 protected:
  void SetUp() override {
    const ops::Accelerators found = ops::find_accelerators();
    if (found.all.empty()) GTEST_SKIP() << found.problem;
  }
};

TEST_P(Accelerated, RunsGiveTheBitsOfProcessorsInTheMemoryThatWasPlanned) {
  const auto [kind, dtype] = GetParam();
  const Outcome expected = train({.kind = kind, .dtype = dtype});
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Outcome outcome =
        train({.kind = kind, .dtype = dtype, .layout = c.layout, .devices = c.devices});
    EXPECT_EQ(outcome.losses, expected.losses);
    EXPECT_EQ(outcome.weights, expected.weights);
    EXPECT_TRUE(outcome.as_planned);
  }
}

TEST_P(Accelerated, OptimizersGiveTheBitsOfProcessors) {
  const auto [kind, dtype] = GetParam();
  for (const char* optimizer : {"sgd", "lion", "muon"}) {
    SCOPED_TRACE(optimizer);
    const Outcome expected =
        train({.kind = kind, .dtype = dtype, .optimizer = optimizer, .tensor_shards = 1});
    const Outcome outcome = train({.kind = kind,
                                   .dtype = dtype,
                                   .devices = {"opencl"},
                                   .optimizer = optimizer,
                                   .tensor_shards = 1});
    EXPECT_EQ(outcome.weights, expected.weights);
    EXPECT_TRUE(outcome.as_planned);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Accelerated,
                         ::testing::Combine(::testing::Values(&model::gpt, &model::llama),
                                            ::testing::Values(DType::F32, DType::BF16)));

}  // namespace
}  // namespace cleave::train
