#include "cleave/spec/model_spec.h"

#include <set>

#include "support/errors.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/spec/presets.h"

namespace cleave {
namespace {

ModelSpec preset(const char* name, spec::Flow flow = {.sequences = 2, .sequence = 64}) {
  return model_spec(find_preset(name).shape, flow);
}

// The counts that the models' authors publish.
TEST(ModelSpec, HasTheParametersOfThePublishedModels) {
  EXPECT_EQ(parameter_count(preset("gpt2-124m")), 124'439'808);
  EXPECT_EQ(parameter_count(preset("gpt2-350m")), 354'823'168);
  EXPECT_EQ(parameter_count(preset("llama-1b")), 1'100'048'384);
}

TEST(ModelSpec, NamesParametersAsHuggingFaceDoes) {
  std::set<std::string> names;
  for (const char* model : {"gpt-tiny", "llama-tiny"}) {
    for (const SegmentSpec& segment : preset(model, {.sequences = 1, .sequence = 8}).segments) {
      for (const LayerSpec& layer : segment.layers) {
        for (const ParameterSpec& parameter : layer.parameters) {
          for (const Piece& piece : parameter.pieces) names.insert(piece.name);
        }
      }
    }
  }
  for (const char* name :
       {"transformer.wte.weight", "transformer.wpe.weight", "transformer.h.0.ln_1.bias",
        "transformer.h.0.attn.c_attn.weight", "transformer.h.0.mlp.c_proj.bias",
        "transformer.ln_f.weight", "model.embed_tokens.weight",
        "model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.v_proj.weight",
        "model.layers.0.mlp.up_proj.weight", "model.layers.0.post_attention_layernorm.weight",
        "model.norm.weight", "lm_head.weight"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(ModelSpec, ChainsFitTogether) {
  for (const char* name : {"gpt2-124m", "llama-160m"}) {
    const ModelSpec model = preset(name);
    const TensorSpec* previous = nullptr;
    for (const SegmentSpec& segment : model.segments) {
      for (const LayerSpec& layer : segment.layers) {
        if (previous != nullptr) {
          EXPECT_EQ(previous->shape, layer.x.shape) << layer.name;
          EXPECT_EQ(previous->dtype, layer.x.dtype) << layer.name;
        }
        if (layer.skip >= 0) {
          EXPECT_EQ(segment.layers[layer.skip].x.shape, layer.y.shape) << layer.name;
        }
        previous = &layer.y;
      }
    }
  }
}

TEST(ModelSpec, PiecesCoverFusedWeightsRowByRow) {
  for (const SegmentSpec& segment : preset("llama-160m").segments) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters) {
        std::int64_t next = 0;
        for (const Piece& piece : parameter.pieces) {
          EXPECT_EQ(piece.first, next) << piece.name;
          next += piece.extent;
        }
        EXPECT_EQ(next, parameter.shape[0]) << parameter.name;
      }
    }
  }
}

// Every element of the model belongs to one shard; biases and norms to the first.
TEST(ModelSpec, TensorSharesOwnEveryParameterOnce) {
  for (const char* name : {"gpt-tiny", "llama-tiny"}) {
    const ModelShape& shape = find_preset(name).shape;
    const spec::Flow flow{.sequences = 1, .sequence = 16};
    std::int64_t owned = 0;
    for (int rank = 0; rank < 2; ++rank) {
      const TensorShare share{.shards = 4, .devices = 2, .rank = rank};
      for (const SegmentSpec& segment : model_spec(shape, flow, 1, share).segments) {
        for (const LayerSpec& layer : segment.layers) {
          for (const ParameterSpec& parameter : layer.parameters) {
            for (const Piece& piece : parameter.pieces) {
              if (piece.copy || !parameter.tied_to.empty()) continue;
              owned += parameter.elements() / parameter.shape[piece.dim] * piece.extent;
            }
          }
        }
      }
    }
    EXPECT_EQ(owned, parameter_count(model_spec(shape, flow))) << name;
  }
}

TEST(ModelSpec, SaysWhatCannotBeCutIntoTensorShards) {
  const ModelShape shape{.kind = ModelKind::Llama,
                         .layers = 1,
                         .hidden = 48,
                         .heads = 12,
                         .kv_heads = 3,
                         .ffn = 64,
                         .vocab = 61,
                         .context = 16};
  const auto refused = [&](std::int64_t tokens, int shards) {
    return testing::user_error(
        [&] { model_spec(shape, {.sequence = tokens}, 1, {.shards = shards, .devices = shards}); });
  };
  EXPECT_EQ(refused(16, 8),
            "model.heads 12 cannot be divided among 8 tensor shards; choose numerics.tensor_shards "
            "(or parallel.tensor) that divides it");
  EXPECT_EQ(refused(16, 2),
            "model.kv_heads 3 and 2 tensor shards do not fit: one must divide the other; change "
            "numerics.tensor_shards");
  EXPECT_EQ(
      refused(15, 4),
      "train.microbatch x train.sequence = 15 cannot be divided among 4 tensor shards; choose "
      "numerics.tensor_shards (or parallel.tensor) that divides it");
}

// 2 FLOPs per weight and token forward, twice that backward; attention's products come on top.
TEST(ModelSpec, CountsSixFlopsPerWeightAndToken) {
  const ModelSpec model = preset("gpt2-124m");
  std::int64_t linear = 0;
  std::int64_t weights = 0;
  for (const SegmentSpec& segment : model.segments) {
    for (const LayerSpec& layer : segment.layers) {
      if (layer.kind != "linear" && layer.kind != "loss") continue;
      linear += flops(layer);
      weights += layer.parameters[0].elements();
    }
  }
  EXPECT_EQ(linear, 6 * weights * model.flow.tokens());
}

TEST(ModelSpec, RefusesASequenceLongerThanTheContext) {
  try {
    preset("gpt2-124m", {.sequences = 1, .sequence = 2048});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "train.sequence 2048 is longer than model.context 1024; shorten the sequence or raise "
        "model.context");
  }
}

}  // namespace
}  // namespace cleave
