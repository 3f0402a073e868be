// An optimizer from outside of cleave is one row: what it keeps beside a parameter, and what it
// does with it. Memory, sharing among replicas, hashes and traffic follow.

#include "train/state_outcome.h"
#include <gtest/gtest.h>

#include "cleave/ops/elementwise.h"

namespace cleave::train {
namespace {

using testing::StateOutcome;
using testing::tiny_model;
using testing::train_state;

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

TEST(OwnOptimizer, GivesTheBitsOfOneDeviceInEveryLayout) {
  const engine::OptimizerKind kind = tracing();
  for (const DType dtype : {DType::F32, DType::BF16}) {
    const Graph model = tiny_model(&model::llama, dtype, 3);
    const StateOutcome one = train_state(model, kind, {}, 2);
    EXPECT_TRUE(one.as_planned);
    EXPECT_EQ(one.slots.count("model.norm.weight.trace"), 1);
    EXPECT_EQ(one.slots.count("model.norm.weight.moves"), 0);
    EXPECT_EQ(one.slots.count("lm_head.weight.moves"), 1);
    for (const int zero : {0, 1, 2, 3}) {
      const StateOutcome many =
          train_state(model, kind, {.pipeline = 2, .data = 2, .tensor = 2, .zero = zero}, 2);
      EXPECT_TRUE(many.agrees_with(one)) << "zero " << zero;
      EXPECT_TRUE(many.as_planned) << "zero " << zero;
    }
  }
}

// A slot that half of the elements have takes the room of half of them.
TEST(OwnOptimizer, KeepsNoMoreThanItsSlots) {
  const engine::OptimizerKind kind = tracing();
  const Graph model = tiny_model(&model::llama, DType::F32, 3);
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
