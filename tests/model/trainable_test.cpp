#include "cleave/spec/trainable.h"

#include "support/errors.h"
#include <gtest/gtest.h>

#include "cleave/model/family.h"

namespace cleave {
namespace {

using testing::user_error;

Graph small(const model::Family* kind) {
  return model::graph_of({.kind = kind,
                          .layers = 12,
                          .hidden = 32,
                          .heads = 4,
                          .kv_heads = 4,
                          .ffn = 64,
                          .vocab = 61,
                          .context = 16,
                          .tie_embeddings = kind == &model::gpt},
                         {.sequences = 1, .sequence = 16});
}

std::vector<std::string> trained(const model::Family* kind,
                                 const std::vector<std::string>& patterns) {
  Graph model = small(kind);
  train_only(model.segments, patterns);
  std::vector<std::string> names;
  for (const SegmentSpec& segment : model.segments) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters)
        if (parameter.trainable) names.push_back(parameter.name);
    }
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(TrainOnly, NamesModulesAndPatterns) {
  EXPECT_EQ(trained(&model::llama, {"lm_head", "layers.1.input_layernorm"}),
            (Names{"model.layers.1.input_layernorm.weight", "lm_head.weight"}));
  EXPECT_EQ(trained(&model::gpt, {"h.1.ln_*.bias"}),
            (Names{"transformer.h.1.ln_1.bias", "transformer.h.1.ln_2.bias"}));
  EXPECT_EQ(trained(&model::gpt, {"*"}).size(), 2 + 12 * 12 + 2 + 1);
}

TEST(TrainOnly, EndsAtDots) {
  EXPECT_EQ(trained(&model::gpt, {"h.1"}).size(), 12);  // not h.10 and h.11
  EXPECT_EQ(trained(&model::gpt, {"h.1*"}).size(), 3 * 12);
}

TEST(TrainOnly, TrainsATiedWeightWithItsOwner) {
  const Names both = {"transformer.wte.weight", "lm_head.weight"};
  EXPECT_EQ(trained(&model::gpt, {"lm_head"}), both);
  EXPECT_EQ(trained(&model::gpt, {"wte"}), both);
}

TEST(TrainOnly, RefusesWhatNamesNothingOrHalfOfSomething) {
  EXPECT_EQ(user_error([] { trained(&model::llama, {"lm_haed"}); }),
            "model.train names \"lm_haed\", and no parameter is called so; did you mean lm_head?");
  EXPECT_EQ(user_error([] { trained(&model::llama, {"layers.0.self_attn.q_proj"}); }),
            "model.train names model.layers.0.self_attn.q_proj.weight but not "
            "model.layers.0.self_attn.k_proj.weight, which is computed together with it; name both "
            "or neither");
}

TEST(TrainOnly, LeavesOutWhatOnlyWeightGradientsNeed) {
  Graph model = small(&model::llama);
  const std::int64_t all = flops(model);
  train_only(model.segments, std::vector<std::string>{"lm_head"});
  const LayerSpec& qkv = model.segments[1].layers[1];
  ASSERT_EQ(qkv.kind, "linear");
  EXPECT_EQ(qkv.x_until, Until::Forward);
  EXPECT_EQ(qkv.dy_until, Until::Input);
  EXPECT_TRUE(qkv.backward_weight.empty());
  EXPECT_LT(flops(model), all);
  EXPECT_EQ(trained_count(model.segments), 61 * 32);
}

}  // namespace
}  // namespace cleave
