// What plans and the compiler say of accelerators: who gets how many layers, what the host's memory
// has to hold, and what is refused.

#include "support/tiny_model.h"
#include "train/accelerated_training.h"
#include "train/auto_config.h"
#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"
#include "cleave/layers/activation.h"
#include "cleave/ops/accelerator.h"
#include "cleave/train/tune/auto_plan.h"
#include "cleave/train/tune/kind_facts.h"

namespace cleave::train {
namespace {

using testing::kMicrobatches;
using testing::kShards;
using testing::Outcome;
using testing::tiny_model;
using testing::train;
using testing::two_layers;

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
  Graph model = two_layers(&model::gpt, DType::F32);
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
  const Graph model = two_layers(&model::gpt, DType::F32);
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
    const Graph model = two_layers(&model::gpt, DType::F32);
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
