// A table of tokens in packed rows: the numbers of a plain table that was rounded to them, in less
// memory, in every layout.

#include <functional>

#include "support/errors.h"
#include "train/state_outcome.h"
#include <gtest/gtest.h>

#include "cleave/spec/lora.h"
#include "cleave/spec/packed_rows.h"
#include "cleave/spec/trainable.h"

namespace cleave::train {
namespace {

using testing::expect_state_of_one;
using testing::kVocabulary;
using testing::StateOutcome;
using testing::tiny_model;
using testing::train_state;
using testing::user_error;

Graph adapted(const model::Family* kind, DType dtype) {
  Graph model = tiny_model(kind, dtype, 4);
  freeze(model.segments);
  add_adapters(model, {.rank = 2, .alpha = 4, .targets = {Lora::kAllLinear}});
  return model;
}

Graph packed(const model::Family* kind, DType dtype) {
  Graph model = adapted(kind, dtype);
  pack_embeddings(model);
  return model;
}

/// The same with the table in the model's format.
Graph rounded(const model::Family* kind, DType dtype) {
  Graph model = packed(kind, dtype);
  for (SegmentSpec& segment : model.segments) {
    for (LayerSpec& layer : segment.layers) {
      if (layer.kind == "packed_embedding") layer.kind = "embedding";
      for (ParameterSpec& parameter : layer.parameters)
        if (parameter.held == Held::Packed) parameter.held = Held::Rounded;
    }
  }
  return model;
}

const std::vector<engine::Layout> kLayouts = {
    {.pipeline = 2},
    {.pipeline = 2, .schedule = "zbv", .recompute = {schedule::Recompute::Selective}},
    {.data = 2, .zero = 1},
    {.pipeline = 2, .data = 2, .schedule = "zb-h1", .zero = 2},
};
const std::vector<engine::Layout> kCutLayouts = {
    {.tensor = 2},
    {.data = 2, .tensor = 2, .sequence_parallel = true, .schedule = "zb-h1", .zero = 2},
};

// A GPT's head shares the table, and its positions are added; a Llama's head has its own.
const std::vector<const model::Family*> kKinds = {&model::gpt, &model::llama};

TEST(PackedEmbedding, TrainsAsATableThatWasRoundedToItsNumbers) {
  const engine::OptimizerKind& adamw = engine::find_optimizer("adamw");
  for (const model::Family* kind : kKinds) {
    for (const DType dtype : {DType::F32, DType::BF16}) {
      const StateOutcome small = train_state(packed(kind, dtype), adamw, {});
      const StateOutcome large = train_state(rounded(kind, dtype), adamw, {});
      const StateOutcome other = train_state(adapted(kind, dtype), adamw, {});
      EXPECT_TRUE(small.as_planned);
      EXPECT_EQ(small.losses, large.losses) << kind->name;
      EXPECT_EQ(small.slots, large.slots) << kind->name;
      EXPECT_NE(small.losses, other.losses) << kind->name << ": rounding changed nothing";
      if (dtype == DType::F32) {
        EXPECT_EQ(small.weights, large.weights) << kind->name;
      }
      // 61 rows of 32 numbers: 4 or 2 bytes for each, or a byte and a scale for all; in grains of
      // 32 numbers of the model's format.
      const std::int64_t plain = kVocabulary * 32 * size_of(dtype);
      const std::int64_t bytes = kVocabulary * 9 * 4;
      const std::int64_t grain = 32 * size_of(dtype);
      EXPECT_EQ(large.planned - small.planned, plain - (bytes + grain - 1) / grain * grain);
    }
  }
}

TEST(PackedEmbedding, GivesTheBitsOfOneDeviceInEveryLayout) {
  for (const model::Family* kind : kKinds) {
    for (const DType dtype : {DType::F32, DType::BF16}) {
      expect_state_of_one(packed(kind, dtype), kLayouts, 1);
      expect_state_of_one(packed(kind, dtype), kCutLayouts, 2);
    }
  }
}

TEST(PackedEmbedding, IsRefusedWhereTheTableLearnsOrThereIsNone) {
  const auto refused = [](Graph model) { return user_error([&] { pack_embeddings(model); }); };
  Graph tied = tiny_model(&model::gpt, DType::F32, 4);
  train_only(tied.segments, std::vector<std::string>{"lm_head"});
  EXPECT_EQ(
      refused(tied),
      "model.frozen_embedding is \"int8\", and transformer.wte.weight learns, alone or with a "
      "head that shares it; name other parameters in model.train, train adapters (lora.rank), "
      "or set model.frozen_embedding to \"full\"");
  EXPECT_EQ(
      refused(tiny_model(&model::vit, DType::F32, 4)),
      "model.frozen_embedding is \"int8\", and the model has no table of tokens; leave it out");
  EXPECT_EQ(refused(tiny_model(&model::vlm, DType::F32, 4)),
            "model.frozen_embedding is \"int8\", and layer join puts rows of images among those of "
            "its table, which it cannot with packed ones; leave it out");
}

}  // namespace
}  // namespace cleave::train
