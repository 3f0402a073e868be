// Adapters beside the linear layers of a model learn, and nothing else does: with the bits of one
// device in every layout, in the memory that was planned.

#include "cleave/spec/lora.h"

#include "support/errors.h"
#include "train/state_outcome.h"
#include <gtest/gtest.h>

#include "cleave/spec/trainable.h"

namespace cleave::train {
namespace {

using testing::expect_state_of_one;
using testing::kCutTensors;
using testing::kWholeTensors;
using testing::StateOutcome;
using testing::tiny_model;
using testing::train_state;
using testing::user_error;

const Lora kAll = {.rank = 4, .alpha = 8, .targets = {Lora::kAllLinear}};
const Lora kSome = {.rank = 2, .alpha = 6, .targets = {"q_proj", "v_proj", "down_proj"}};

Graph adapted(const model::Family* kind, DType dtype, const Lora& lora) {
  Graph model = tiny_model(kind, dtype, 4);
  freeze(model.segments);
  add_adapters(model, lora);
  return model;
}

TEST(Lora, BeginsAsTheModelItself) {
  const engine::OptimizerKind& adamw = engine::find_optimizer("adamw");
  for (const model::Family* kind : {&model::gpt, &model::llama}) {
    Graph frozen = tiny_model(kind, DType::F32, 4);
    const StateOutcome without = train_state(frozen, adamw, {});
    const StateOutcome with = train_state(adapted(kind, DType::F32, kAll), adamw, {});
    EXPECT_EQ(with.losses[0], without.losses[0]) << kind->name;
    EXPECT_NE(with.losses[1], with.losses[0]) << kind->name;
  }
}

TEST(Lora, OnlyAdaptersChangeAndHaveState) {
  const engine::OptimizerKind& adamw = engine::find_optimizer("adamw");
  const StateOutcome with = train_state(adapted(&model::llama, DType::F32, kSome), adamw, {});
  for (const auto& [name, sum] : with.slots)
    EXPECT_TRUE(name.find(".lora_") != std::string::npos) << name;
  EXPECT_EQ(with.slots.size(), 4u * 3 * 2 * 2);  // blocks, targets, A and B, m and v
  EXPECT_TRUE(with.as_planned);

  const engine::CompiledStep step = engine::compile(adapted(&model::llama, DType::F32, kSome), {});
  // Of each block: q 32 by 32, v 16 by 32, down 32 by 64; padding to whole grains aside.
  const std::int64_t elements = 4 * 2 * ((32 + 32) + (16 + 32) + (32 + 64));
  EXPECT_EQ(step.memory[0].gradients, elements * 4);
  EXPECT_EQ(step.memory[0].optimizer, elements * 8);
}

TEST(Lora, GivesTheBitsOfOneDeviceInEveryLayout) {
  expect_state_of_one(adapted(&model::llama, DType::F32, kSome), kWholeTensors, 1);
  expect_state_of_one(adapted(&model::gpt, DType::BF16, kAll), kWholeTensors, 1);
  // Four shards share two heads of keys and values.
  std::vector<engine::Layout> cut = kCutTensors;
  cut.push_back({.tensor = 4});
  cut.push_back({.tensor = 4, .sequence_parallel = true});
  expect_state_of_one(adapted(&model::llama, DType::BF16, kAll), cut, 4);
  expect_state_of_one(adapted(&model::gpt, DType::F32, kAll), cut, 4);
}

/// A user's own graph: a linear layer that is not cut, after which another one skips to its x.
TEST(Lora, FitsIntoAGraphOfTheUsers) {
  Graph model = tiny_model(&model::llama, DType::F32, 2);
  const spec::Flow flow{.sequence = testing::kSequence};
  std::vector<LayerSpec>& layers = model.segments[1].layers;
  const int before = static_cast<int>(layers.size());
  layers.push_back(spec::linear("own.mix", flow, {.in = 32, .out = 32, .bias = Bias::Add}));
  layers.push_back(spec::residual("own.residual", flow, 32, before));
  freeze(model.segments);
  add_adapters(model, {.rank = 3, .alpha = 3, .targets = {"mix", "gate_proj"}});
  check(model);
  const engine::OptimizerKind& adamw = engine::find_optimizer("adamw");
  const StateOutcome one = train_state(model, adamw, {}, 2);
  EXPECT_TRUE(one.slots.contains("own.mix.lora_A.weight.m"));
  EXPECT_NE(one.losses[0], one.losses[3]);
  EXPECT_TRUE(train_state(model, adamw, {.pipeline = 2, .tensor = 2}, 2).agrees_with(one));
}

TEST(Lora, ScalesByRankOrByItsRoot) {
  EXPECT_EQ((Lora{.rank = 16, .alpha = 32}).scale(), 2);
  EXPECT_EQ((Lora{.rank = 16, .alpha = 32, .rslora = true}).scale(), 8);
}

TEST(Lora, NamesWhatThereIsInsteadOfATargetThatIsNot) {
  Graph model = tiny_model(&model::llama, DType::F32, 4);
  const auto refused = [&](const std::string& target) {
    return user_error([&] { add_adapters(model, {.rank = 1, .alpha = 1, .targets = {target}}); });
  };
  const std::string all = "nown are down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj";
  EXPECT_EQ(refused("c_attn"),
            "lora.targets names \"c_attn\", and no linear layer is called so; k" + all);
  EXPECT_EQ(refused("down_pro"),
            "lora.targets names \"down_pro\", and no linear layer is called so; did you mean "
            "down_proj? K" +
                all);
}

}  // namespace
}  // namespace cleave::train
