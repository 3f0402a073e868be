// A part of the model learns. What does not has its values and nothing else, and what does learns
// what it would have learned beside it.

#include "cleave/spec/trainable.h"

#include "support/errors.h"
#include "train/state_outcome.h"
#include <gtest/gtest.h>

namespace cleave::train {
namespace {

using testing::expect_state_of_one;
using testing::kCutTensors;
using testing::kWholeTensors;
using testing::StateOutcome;
using testing::tiny_model;
using testing::train_state;

Graph part_of(const model::Family* kind, DType dtype, const std::vector<std::string>& patterns) {
  Graph model = tiny_model(kind, dtype, 4);
  train_only(model.segments, patterns);
  return model;
}

/// AdamW that leaves alone what `patterns` do not name.
engine::OptimizerKind only(const model::Family* kind, const std::vector<std::string>& patterns) {
  engine::OptimizerKind some = engine::find_optimizer("adamw");
  std::vector<std::string> names;
  const Graph model = part_of(kind, DType::F32, patterns);
  for (const SegmentSpec& segment : model.segments) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters)
        if (parameter.trainable) names.push_back(parameter.name);
    }
  }
  some.update = [names, update = some.update](ops::Compute& compute,
                                              const engine::ParameterState& parameter,
                                              const engine::UpdateStep& at) {
    if (std::ranges::find(names, parameter.spec->name) != names.end())
      update(compute, parameter, at);
  };
  return some;
}

struct Part {
  const model::Family* kind;
  std::vector<std::string> patterns;
};

// Blocks in the middle, both ends (which GPT ties), norms alone, a bias without its matrix.
const std::vector<Part> kParts = {
    {&model::gpt, {"h.1", "h.2"}},
    {&model::gpt, {"lm_head"}},
    {&model::gpt, {"ln_*", "mlp.c_fc.bias", "wpe"}},
    {&model::llama, {"lm_head", "layers.3"}},
    {&model::llama, {"layers.*.self_attn.o_proj", "layers.0.mlp.down_proj", "model.norm"}},
    {&model::vlm, {"projector"}},
    {&model::vlm, {"vision", "embed_tokens"}},
    {&model::vlm, {"language"}},
};

// The gradients of a part do not depend on whether the rest has any.
TEST(Trainable, APartLearnsWhatItLearnsInTheWhole) {
  const engine::OptimizerKind& adamw = engine::find_optimizer("adamw");
  for (const auto& [kind, patterns] : kParts) {
    for (const DType dtype : {DType::F32, DType::BF16}) {
      const StateOutcome part = train_state(part_of(kind, dtype, patterns), adamw, {});
      const StateOutcome whole = train_state(tiny_model(kind, dtype, 4), only(kind, patterns), {});
      EXPECT_TRUE(part.as_planned) << patterns[0];
      EXPECT_EQ(part.losses, whole.losses) << patterns[0];
      EXPECT_LT(part.planned, whole.planned) << patterns[0];
      EXPECT_LT(part.slots.size(), whole.slots.size());
      for (const auto& [slot, sum] : part.slots) EXPECT_EQ(sum, whole.slots.at(slot)) << slot;
      if (dtype == DType::F32) {
        EXPECT_EQ(part.weights, whole.weights) << patterns[0];
      }
    }
  }
}

TEST(Trainable, GivesTheBitsOfOneDeviceInEveryLayout) {
  for (std::size_t p = 0; p < kParts.size(); ++p) {
    SCOPED_TRACE(p);
    const DType dtype = p % 2 == 0 ? DType::BF16 : DType::F32;
    const Graph model = part_of(kParts[p].kind, dtype, kParts[p].patterns);
    expect_state_of_one(model, kWholeTensors, 1);
    expect_state_of_one(model, kCutTensors, 2);
  }
}

TEST(Trainable, MakesTheGradientsThatSomebodyWants) {
  using schedule::GradientKind;
  const engine::Layout layout{.pipeline = 4, .partition = {1, 1, 1, 1}};
  const auto kinds = [&](const std::vector<std::string>& patterns) {
    return engine::compile(part_of(&model::vlm, DType::F32, patterns),
                           {.layout = layout, .microbatches = 4})
        .program.gradients;
  };

  EXPECT_EQ(kinds({"projector"}), (std::vector{GradientKind::None, GradientKind::None,
                                               GradientKind::Full, GradientKind::InputOnly}));
  EXPECT_EQ(kinds({"vision"}), (std::vector{GradientKind::Full, GradientKind::Full,
                                            GradientKind::InputOnly, GradientKind::InputOnly}));
  EXPECT_EQ(kinds({"lm_head"}), (std::vector{GradientKind::None, GradientKind::None,
                                             GradientKind::None, GradientKind::Full}));
  EXPECT_TRUE(kinds({"vision", "language"}).empty());
}

TEST(Trainable, AFrozenTowerHoldsItsWeightsAndWhatItGives) {
  const engine::Layout layout{.pipeline = 3, .partition = {1, 1, 2}};
  const engine::CompiledStep step = engine::compile(part_of(&model::vlm, DType::F32, {"projector"}),
                                                    {.layout = layout, .microbatches = 4});
  using schedule::BufferKind;
  using schedule::Op;

  EXPECT_EQ(step.memory[0].gradients, 0);
  EXPECT_EQ(step.memory[0].optimizer, 0);
  for (const schedule::Buffer& buffer : step.program.buffers) {
    if (buffer.device != 0) continue;
    const bool passes =
        buffer.kind == BufferKind::Leaving || buffer.kind == BufferKind::SegmentInput;
    EXPECT_TRUE(passes || buffer.kind == BufferKind::Weights || buffer.kind == BufferKind::Scratch)
        << static_cast<int>(buffer.kind);
    if (passes) {
      EXPECT_EQ(buffer.direction, schedule::Direction::Forward);
    }
  }
  for (const schedule::Instruction& i : step.program.lists[0]) {
    const bool backward =
        i.op == Op::Backward || i.op == Op::BackwardInput || i.op == Op::BackwardWeight;
    EXPECT_FALSE(backward || i.op == Op::Receive || i.op == Op::Reduce);
  }
  std::int64_t most = 0;  // bytes that pass through at once
  for (int at = 0; at < std::ssize(step.program.lists[0]); ++at) {
    std::int64_t passing = 0;
    for (const schedule::Buffer& buffer : step.program.buffers) {
      const bool lasts = buffer.kind == BufferKind::Weights || buffer.kind == BufferKind::Scratch;
      if (buffer.device == 0 && !lasts && buffer.first <= at && at <= buffer.last)
        passing += buffer.bytes;
    }
    most = std::max(most, passing);
  }
  EXPECT_GT(most, 0);
  EXPECT_EQ(step.planned_bytes[0], step.memory[0].weights + step.memory[0].scratch + most);
}

TEST(Trainable, WhatIsFrozenKeepsNoMasterNoSlotAndNoGradient) {
  const Graph all = tiny_model(&model::llama, DType::BF16, 4);
  const engine::CompiledStep whole = engine::compile(all, {});
  const engine::CompiledStep part =
      engine::compile(part_of(&model::llama, DType::BF16, {"model.norm"}), {});
  const std::int64_t trained = 32;  // elements, a whole number of grains
  EXPECT_EQ(part.memory[0].gradients, trained * 4);
  EXPECT_EQ(part.memory[0].optimizer, trained * 8);
  const std::int64_t masters = (parameter_count(all) - trained) * 4;
  EXPECT_EQ(whole.memory[0].weights - part.memory[0].weights, masters);
}

}  // namespace
}  // namespace cleave::train
