// Tiny models on accelerators, alone, several, and side by side with processors: the weights,
// losses and bytes are those of the processor. Skipped where there is no accelerator.

#include "cleave/ops/accelerator.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "support/tiny_model.h"
#include "train/accelerated_training.h"
#include "train/special_model.h"
#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"
#include "cleave/engine/run/device.h"
#include "cleave/ops/product_library.h"
#include "cleave/spec/lora.h"
#include "cleave/spec/trainable.h"

namespace cleave::train {
namespace {

using testing::Outcome;
using testing::ReplicaSource;
using testing::special_model;
using testing::train;
using testing::two_layers;

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
  expect_bits_of_processor(two_layers(kind, dtype), cases());
}

/// The moves of messages of one step of two accelerators, and what computed meanwhile.
TEST(AcceleratedMessages, MoveBesideKernelsInBuffersThatArePlanned) {
  const ops::Accelerators found = ops::find_accelerators();
  if (found.all.empty()) GTEST_SKIP() << found.problem;
  constexpr int kMany = 8;
  const engine::CompiledStep step =
      engine::compile(two_layers(&model::gpt, DType::F32), {.layout = {.pipeline = 2},
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
  const Graph model = two_layers(&model::gpt, DType::F32);
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
  const Graph model = two_layers(kind, dtype);
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
  Graph model = two_layers(kind, dtype);
  freeze(model.segments);
  add_adapters(model, {.rank = 4, .alpha = 8, .targets = {Lora::kAllLinear}});
  expect_bits_of_processor(
      model, {{"one", {}, {"opencl"}}, {"mixed tensor", {.tensor = 2}, {"opencl", "cpu"}}});
}

}  // namespace
}  // namespace cleave::train
