// Every optimizer of the table has the bits of one device in every layout.

#include "support/errors.h"
#include "train/state_outcome.h"
#include "train/tiny_config.h"
#include <gtest/gtest.h>

#include "cleave/train/config/config.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::train {
namespace {

using testing::StateOutcome;
using testing::tiny_model;
using testing::train_state;
using testing::user_error;

TEST(Optimizers, GiveTheBitsOfOneDeviceInEveryLayout) {
  const std::vector<engine::Layout> layouts = {
      {.pipeline = 2},
      {.data = 2},
      {.data = 2, .zero = 1},
      {.pipeline = 2, .data = 2, .schedule = "zb-h1", .zero = 2},
      {.pipeline = 2, .data = 2, .zero = 3},
  };
  for (const engine::OptimizerKind& kind : engine::optimizers()) {
    for (const model::Family* family : {&model::gpt, &model::llama}) {
      const DType dtype = family == &model::gpt ? DType::F32 : DType::BF16;
      const Graph model = tiny_model(family, dtype, 3);
      const StateOutcome one = train_state(model, kind, {});
      EXPECT_TRUE(one.as_planned) << kind.name;
      for (std::size_t i = 0; i < layouts.size(); ++i) {
        const StateOutcome many = train_state(model, kind, layouts[i]);
        EXPECT_TRUE(many.agrees_with(one)) << kind.name << ", layout " << i;
        EXPECT_TRUE(many.as_planned) << kind.name << ", layout " << i;
      }
      if (kind.whole) continue;
      const engine::Layout cut{.data = 2, .tensor = 2, .sequence_parallel = true, .zero = 2};
      const StateOutcome folded = train_state(model, kind, {}, 2);
      EXPECT_TRUE(train_state(model, kind, cut, 2).agrees_with(folded)) << kind.name;
    }
  }
}

// A weight that moves by nothing in four steps would make the comparison above worthless.
TEST(Optimizers, DifferInWhatTheyDo) {
  std::map<std::map<std::string, std::uint64_t>, std::string> seen;
  for (const engine::OptimizerKind& kind : engine::optimizers()) {
    const StateOutcome one = train_state(tiny_model(&model::gpt, DType::F32, 3), kind, {});
    EXPECT_TRUE(seen.emplace(one.weights, kind.name).second) << kind.name;
    EXPECT_LT(one.losses.back(), one.losses.front() + 0.05) << kind.name;
  }
}

TEST(Optimizers, MuonKeepsOneSlotBesideAMatrixAndRefusesTensorShards) {
  const engine::OptimizerKind& muon = engine::find_optimizer("muon");
  const Graph model = tiny_model(&model::llama, DType::F32, 3);
  const StateOutcome one = train_state(model, muon, {});
  EXPECT_EQ(one.slots.count("model.layers.0.self_attn.q_proj.weight.momentum"), 1);
  EXPECT_EQ(one.slots.count("model.layers.0.self_attn.q_proj.weight.m"), 0);
  EXPECT_EQ(one.slots.count("model.embed_tokens.weight.v"), 1);
  EXPECT_EQ(one.slots.count("lm_head.weight.v"), 1);
  EXPECT_EQ(user_error([&] { train_state(model, muon, {.tensor = 2}, 2); }),
            "train.optimizer muon updates whole matrices, and 2 tensor shards cut "
            "model.layers.0.self_attn.qkv_proj.weight; use parallel.tensor 1 with "
            "numerics.tensor_shards 1, or another optimizer");
}

TEST(Optimizers, AreNamedByAConfigWhoseKeysTheyRead) {
  const auto named = [](const std::vector<std::string>& overrides) {
    const std::string model = "[model]\nlayers = 2\nhidden = 32\nheads = 2\n";
    return optimizer_of(parse_config(model, "run.toml", {.overrides = overrides})).name;
  };
  EXPECT_EQ(named({}), "adamw");
  EXPECT_EQ(named({"train.optimizer=lion", "train.betas=[0.9, 0.99]"}), "lion");
  EXPECT_EQ(user_error([&] { named({"train.optimizer=adam"}); }),
            "train.optimizer is \"adam\"; it must be one of adamw, sgd, lion, muon; did you mean "
            "adamw?");
  EXPECT_EQ(user_error([&] { named({"train.momentum=0.5"}); }),
            "train.momentum is 0.5, and train.optimizer adamw does not read it; leave it out, or "
            "use sgd");
}

// A server plans anew, with one absence more, whenever it loses a client.
TEST(RoundSlots, AreOneKindHoweverManyAbsencesAreDeclared) {
  const std::vector<std::string> rounds = {"edge.sync_every=2", "edge.clients=3",
                                           "edge.keep_slots=true"};
  const auto kind_with = [&](const std::string& key) {
    std::vector<std::string> keys = rounds;
    keys.push_back(key);
    return &optimizer_of(testing::config_with(keys));
  };

  EXPECT_EQ(kind_with("edge.absent=[\"1 2-3\"]"), kind_with("edge.absent=[\"1 2-3\", \"2 4-\"]"));
  EXPECT_NE(kind_with("edge.codec=topk"), kind_with("edge.codec=int8"));
  EXPECT_NE(kind_with("train.optimizer=sgd"), kind_with("train.optimizer=adamw"));
}

}  // namespace
}  // namespace cleave::train
