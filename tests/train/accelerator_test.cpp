// Tiny models on accelerators, alone, several, and side by side with processors: the weights,
// losses and bytes are those of the processor. Skipped where there is no accelerator.

#include "cleave/ops/accelerator.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "support/tiny_model.h"
#include "train/auto_config.h"
#include "train/special_model.h"
#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/layers/activation.h"
#include "cleave/ops/product_library.h"
#include "cleave/spec/lora.h"
#include "cleave/spec/trainable.h"
#include "cleave/train/step/run_optimizer.h"
#include "cleave/train/tune/auto_plan.h"
#include "cleave/train/tune/kind_facts.h"

namespace cleave::train {
namespace {

using testing::ReplicaSource;
using testing::special_model;
using testing::tiny_model;

constexpr int kMicrobatches = 4;  // of the whole step
constexpr int kShards = 2;        // of data and tensors
constexpr int kSteps = 2;

Graph model_of(const model::Family* kind, DType dtype) {
  return tiny_model(kind, dtype, /*layers=*/2);
}

/// PoCL shows as many devices as this says; other drivers do not look at it. Before the first call.
const int kTwoDevices = setenv("POCL_DEVICES", "pthread pthread", 0);

struct Outcome {
  std::string weights;
  std::vector<double> losses;
  bool as_planned = true;
  std::int64_t on_host = 0;    ///< bytes that messages and sums passed through, all devices
  std::int64_t unplanned = 0;  ///< the same of what no plan has
};

struct Training {
  Graph model;
  engine::Layout layout = {};
  std::vector<std::string> devices = {};
  std::string optimizer = "adamw";
  int tensor_shards = kShards;
  ops::Arithmetic arithmetic = ops::Arithmetic::Exact;
};

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

/// Runs of one model, each on devices of its own, against the one on a processor.
void expect_bits_of_processor(const Graph& model, const std::vector<Case>& cases) {
  const Outcome expected = train({.model = model});
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Outcome outcome = train({.model = model, .layout = c.layout, .devices = c.devices});
    EXPECT_EQ(outcome.losses, expected.losses);
    EXPECT_EQ(outcome.weights, expected.weights);
    EXPECT_TRUE(outcome.as_planned);
    // Layers without a rule by which they are cut exchange nothing in a tensor group.
    if (c.layout.tensor == 1) {
      EXPECT_EQ(outcome.on_host > 0, c.layout.pipeline * c.layout.data > 1);
    }
    EXPECT_EQ(outcome.unplanned, 0);
  }
}

TEST_P(Accelerated, RunsGiveTheBitsOfProcessorsInTheMemoryThatWasPlanned) {
  const auto [kind, dtype] = GetParam();
  expect_bits_of_processor(model_of(kind, dtype), cases());
}

/// The moves of messages of one step of two accelerators, and what computed meanwhile.
TEST(AcceleratedMessages, MoveBesideKernelsInBuffersThatArePlanned) {
  const ops::Accelerators found = ops::find_accelerators();
  if (found.all.empty()) GTEST_SKIP() << found.problem;
  constexpr int kMany = 8;
  const engine::CompiledStep step =
      engine::compile(model_of(&model::gpt, DType::F32), {.layout = {.pipeline = 2},
                                                          .microbatches = kMany,
                                                          .device_kinds = {"opencl"},
                                                          .arithmetic = ops::Arithmetic::Exact});
  EXPECT_EQ(step.program.through_host, (std::vector<int>{0, 1}));
  EXPECT_GT(step.host_on(0), 0);
  std::mutex mutex;
  std::vector<std::vector<plan::Span>> spans(2);
  comm::run_devices(2, [&](comm::Communicator& world) {
    engine::Device device(step, world.rank(), 1, world);
    device.initialise(7);
    ReplicaSource source(0, 0);
    device.executor().run({.source = &source});
    const auto measured = device.executor().spans();
    const std::lock_guard lock(mutex);
    spans[world.rank()].assign(measured.begin(), measured.end());
  });
  for (const auto& own : spans) {
    const auto is_moved = [](const plan::Span& span) {
      return span.kind == plan::SpanKind::Transfer && is_message_move(span.instruction);
    };
    EXPECT_EQ(std::ranges::count_if(own, is_moved), 2 * kMany);
    for (const plan::Span& span : own) {
      if (!is_moved(span)) continue;
      EXPECT_LE(span.begin, span.end);
      EXPECT_GE(span.begin, 0);
    }
  }
}

TEST(AcceleratedLibrary, GivesTheSameBitsInEveryLayout) {
  const ops::Accelerators found = ops::find_accelerators();
  if (found.all.empty()) GTEST_SKIP() << found.problem;
  if (ops::product_library().empty()) GTEST_SKIP() << "built without a library for products";
  const Graph model = model_of(&model::gpt, DType::F32);
  const auto fastest = ops::Arithmetic::Fastest;
  const Outcome expected = train({.model = model, .devices = {"opencl"}, .arithmetic = fastest});
  for (const Case& c : cases()) {
    if (c.devices != std::vector<std::string>{"opencl"}) continue;
    SCOPED_TRACE(c.name);
    const Outcome outcome =
        train({.model = model, .layout = c.layout, .devices = c.devices, .arithmetic = fastest});
    EXPECT_EQ(outcome.losses, expected.losses);
    EXPECT_EQ(outcome.weights, expected.weights);
    EXPECT_TRUE(outcome.as_planned);
  }
}

TEST_P(Accelerated, OptimizersGiveTheBitsOfProcessors) {
  const auto [kind, dtype] = GetParam();
  const Graph model = model_of(kind, dtype);
  for (const char* optimizer : {"sgd", "lion", "muon"}) {
    SCOPED_TRACE(optimizer);
    const Outcome expected = train({.model = model, .optimizer = optimizer, .tensor_shards = 1});
    const Outcome outcome =
        train({.model = model, .devices = {"opencl"}, .optimizer = optimizer, .tensor_shards = 1});
    EXPECT_EQ(outcome.weights, expected.weights);
    EXPECT_TRUE(outcome.as_planned);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Accelerated,
                         ::testing::Combine(::testing::Values(&model::gpt, &model::llama),
                                            ::testing::Values(DType::F32, DType::BF16)));

class AcceleratedFamily : public Accelerated {};

TEST_P(AcceleratedFamily, GivesTheBitsOfProcessors) {
  const auto [kind, dtype] = GetParam();
  expect_bits_of_processor(special_model(kind, dtype),
                           {{"one", {}, {"opencl"}},
                            {"mixed pipeline", {.pipeline = 2}, {"opencl:0", "cpu"}},
                            {"tensor 2", {.tensor = 2}, {"cpu", "opencl"}}});
}

INSTANTIATE_TEST_SUITE_P(
    Families, AcceleratedFamily,
    ::testing::Combine(::testing::Values(&model::mistral, &model::qwen2, &model::qwen3,
                                         &model::olmo2, &model::gemma3, &model::phi3,
                                         &model::smollm3, &model::vit, &model::cnn),
                       ::testing::Values(DType::F32, DType::BF16)));

TEST_P(Accelerated, AdaptersGiveTheBitsOfProcessors) {
  const auto [kind, dtype] = GetParam();
  Graph model = model_of(kind, dtype);
  freeze(model.segments);
  add_adapters(model, {.rank = 4, .alpha = 8, .targets = {Lora::kAllLinear}});
  expect_bits_of_processor(
      model, {{"one", {}, {"opencl"}}, {"mixed tensor", {.tensor = 2}, {"opencl", "cpu"}}});
}

TEST(AcceleratedPlan, GivesTheSlowerKindFewerLayersAndTheSameBits) {
  const ops::Accelerators found = ops::find_accelerators();
  if (found.all.empty()) GTEST_SKIP() << found.problem;
  constexpr int kLayers = 6;
  comm::LocalLauncher here;
  Config config = testing::config_of(
      "[devices]\ncount = 2\nkind = [\"cpu\", \"opencl\"]\n"
      "[parallel]\npipeline = 2\ntensor = 1\ndata = 1\nzero = 0\nrecompute = \"auto\"\n");
  const KindFacts facts = kind_facts(config, here);
  ASSERT_EQ(facts.speed.size(), 2u);
  EXPECT_EQ(facts.speed[0], 1);
  EXPECT_LE(facts.memory[1], found.all[1 % found.all.size()].memory);
  if (facts.speed[1] > 0.8) GTEST_SKIP() << "the accelerator is about as fast";
  const std::vector<std::int64_t> cut = *plan_run(config, here).choice().config.parallel.partition;
  ASSERT_EQ(cut.size(), 2u);
  EXPECT_GT(cut[0], cut[1]);

  const Graph model = tiny_model(&model::gpt, DType::F32, kLayers);
  const Outcome expected = train({.model = model});
  const Outcome outcome = train({.model = model,
                                 .layout = {.pipeline = 2, .partition = {kLayers - 1, 1}},
                                 .devices = {"cpu", "opencl"}});
  EXPECT_EQ(outcome.weights, expected.weights);
  EXPECT_TRUE(outcome.as_planned);
}

/// A layer that reads elements itself, in place of the activation.
Graph with_own_layer() {
  Graph model = model_of(&model::gpt, DType::F32);
  for (SegmentSpec& segment : model.segments)
    for (LayerSpec& layer : segment.layers)
      if (layer.kind == "gelu") layer.kind = "own_gelu";
  return model;
}

std::string refusal(const engine::CompileOptions& options) {
  try {
    engine::compile(with_own_layer(), options);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(AcceleratedPlan, CountsMessagesOnTheHostAgainstItsBudget) {
  engine::CompileOptions options{.layout = {.pipeline = 2, .offload = schedule::Offload::Nothing},
                                 .microbatches = kMicrobatches,
                                 .device_kinds = {"cpu", "opencl"}};
  const Graph model = model_of(&model::gpt, DType::F32);
  const engine::CompiledStep step = engine::compile(model, options);
  EXPECT_EQ(step.host_on(0), 0);
  const std::int64_t needed = step.host_on(1);
  ASSERT_GT(needed, 0);
  options.outside_budgets = {0, needed};
  EXPECT_EQ(engine::compile(model, options).host_on(1), needed);
  options.outside_budgets = {0, needed - 1};
  EXPECT_THROW(engine::compile(model, options), DoesNotFit);
}

TEST(AcceleratedPlan, CountsSumsOnTheHostAgainstItsBudget) {
  for (const engine::Layout& layout :
       {engine::Layout{.data = 2}, engine::Layout{.data = 2, .zero = 1},
        engine::Layout{.data = 2, .zero = 3}, engine::Layout{.tensor = 2}}) {
    engine::CompileOptions options{.layout = layout,
                                   .microbatches = kMicrobatches / layout.data,
                                   .data_shards = kShards,
                                   .tensor_shards = kShards,
                                   .device_kinds = {"opencl"}};
    options.layout.offload = schedule::Offload::Nothing;
    const Graph model = model_of(&model::gpt, DType::F32);
    const std::int64_t needed = engine::compile(model, options).host_on(1);
    ASSERT_GT(needed, 0);
    options.outside_budgets = {needed, needed};
    EXPECT_EQ(engine::compile(model, options).host_on(1), needed);
    options.outside_budgets = {needed, needed - 1};
    EXPECT_THROW(engine::compile(model, options), DoesNotFit);
  }
}

TEST(AcceleratedPlan, RefusesLayersAndOptimizersWithoutKernels) {
  LayerKinds kinds;
  kinds.add(layer_kind<Gelu>("own_gelu"));
  EXPECT_EQ(refusal({.device_kinds = {"opencl"}, .kinds = kinds}),
            "device 0 is \"opencl\", but layer transformer.h.0.mlp.act is of kind \"own_gelu\", "
            "which has no "
            "kernels for accelerators; set devices.kind to \"cpu\" for that device");
  engine::OptimizerKind own = engine::find_optimizer("sgd");
  own.name = "own";
  own.on_accelerators = false;
  EXPECT_EQ(refusal({.device_kinds = {"opencl"}, .optimizer = &own, .kinds = kinds}),
            "device 0 is \"opencl\", but train.optimizer own has no kernels for accelerators; set "
            "devices.kind to \"cpu\", or use another optimizer");
  EXPECT_EQ(refusal({.device_kinds = {"cpu"}, .optimizer = &own, .kinds = kinds}), "");
}

}  // namespace
}  // namespace cleave::train
