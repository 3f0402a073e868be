#include "cleave/model/family.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/model/presets.h"
#include "cleave/spec/image_layers.h"
#include "cleave/spec/trainable.h"

namespace cleave {
namespace {

Graph preset(const char* name, spec::Flow flow = {.sequences = 2, .sequence = 64}) {
  return model::graph_of(model::find_preset(name).shape, flow);
}

// The counts that the models' authors publish.
TEST(Family, HasTheParametersOfThePublishedModels) {
  EXPECT_EQ(parameter_count(preset("gpt2-124m")), 124'439'808);
  EXPECT_EQ(parameter_count(preset("gpt2-350m")), 354'823'168);
  EXPECT_EQ(parameter_count(preset("llama-1b")), 1'100'048'384);
  EXPECT_EQ(parameter_count(preset("vit-s-16")), 22'050'664);
  EXPECT_EQ(parameter_count(preset("vit-b-16")), 86'567'656);
  EXPECT_EQ(parameter_count(preset("vit-l-16")), 304'326'632);
  EXPECT_EQ(parameter_count(preset("vit-h-14")), 632'045'800);
  EXPECT_EQ(parameter_count(preset("cnn-fashion")), 44'426);
  EXPECT_EQ(parameter_count(preset("llava-1.5-7b")), 7'063'427'072);
  EXPECT_EQ(parameter_count(preset("smolvlm-256m")), 256'484'928);
  EXPECT_EQ(parameter_count(preset("clip-vit-b-32")), 151'277'313);
  EXPECT_EQ(parameter_count(preset("siglip-b-16")), 203'155'970);
}

TEST(Family, NamesParametersAsHuggingFaceDoes) {
  std::set<std::string> names;
  for (const char* model : {"gpt-tiny", "llama-tiny", "vit-tiny", "vlm-tiny"}) {
    for (const SegmentSpec& segment : preset(model, {.sequences = 1, .sequence = 8}).segments) {
      for (const LayerSpec& layer : segment.layers) {
        for (const ParameterSpec& parameter : layer.parameters) {
          for (const Piece& piece : parameter.pieces) names.insert(piece.name);
        }
      }
    }
  }
  for (const char* name : {"transformer.wte.weight",
                           "transformer.wpe.weight",
                           "transformer.h.0.ln_1.bias",
                           "transformer.h.0.attn.c_attn.weight",
                           "transformer.h.0.mlp.c_proj.bias",
                           "transformer.ln_f.weight",
                           "model.embed_tokens.weight",
                           "model.layers.0.self_attn.q_proj.weight",
                           "model.layers.0.self_attn.v_proj.weight",
                           "model.layers.0.mlp.up_proj.weight",
                           "model.layers.0.post_attention_layernorm.weight",
                           "model.norm.weight",
                           "lm_head.weight",
                           "vit.embeddings.cls_token",
                           "vit.embeddings.position_embeddings",
                           "vit.embeddings.patch_embeddings.projection.weight",
                           "vit.encoder.layer.0.attention.attention.key.bias",
                           "vit.layernorm.bias",
                           "classifier.weight",
                           "vision_tower.vision_model.embeddings.class_embedding",
                           "vision_tower.vision_model.pre_layrnorm.weight",
                           "vision_tower.vision_model.encoder.layers.2.mlp.fc1.bias",
                           "multi_modal_projector.linear_2.weight",
                           "language_model.model.embed_tokens.weight",
                           "language_model.model.layers.0.self_attn.q_proj.weight",
                           "language_model.lm_head.weight"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(Family, MakesSoundGraphs) {
  for (const char* name : {"gpt2-124m", "llama-160m"}) {
    const Graph graph = preset(name);
    EXPECT_NO_THROW(check(graph)) << name;
    EXPECT_EQ(block_count(graph), 12) << name;
    EXPECT_EQ(*input_at(graph, 0, "x"), "tokens") << name;
    EXPECT_EQ(*input_at(graph, 13, "targets"), "targets") << name;
  }
}

TEST(Family, ReadsImagesAsPatches) {
  const Graph graph = preset("vit-b-16", {.sequences = 2});

  EXPECT_NO_THROW(check(graph));
  EXPECT_EQ(block_count(graph), 12);
  EXPECT_EQ(graph.inputs[0].tensor.shape, (Shape{2 * 196, 768}));
  EXPECT_EQ(*input_at(graph, 13, "labels"), "labels");
  EXPECT_EQ(loss_count(graph), 2);
  EXPECT_TRUE(counts_hits(graph));
}

TEST(Family, ReadsImagesAndTokensInOneChain) {
  const Graph graph = preset("llava-1.5-7b", {.sequences = 2, .sequence = 1024, .images = 3});

  EXPECT_NO_THROW(check(graph));
  EXPECT_EQ(block_count(graph), 23 + 32);  // the last layer of the tower is not computed
  EXPECT_EQ(block_count(graph), model::find_preset("llava-1.5-7b").shape.blocks());
  EXPECT_EQ(*input_at(graph, 0, "x"), "patches");
  EXPECT_EQ(graph.inputs[0].tensor.shape, (Shape{2 * 3 * 576, 588}));
  std::vector<std::string> modules;
  for (const SegmentSpec& segment : graph.segments)
    if (modules.empty() || modules.back() != segment.module) modules.push_back(segment.module);
  EXPECT_EQ(modules, (std::vector<std::string>{"vision", "projector", "language"}));
  const SegmentSpec& join = graph.segments[26];
  EXPECT_EQ(join.name, "join");
  EXPECT_EQ(join.layers[0].x.shape, (Shape{2 * 3 * 576, 4096}));
  EXPECT_EQ(*input_at(graph, 26, "places"), "places");
  EXPECT_EQ(loss_count(graph), 2 * 1024);
}

TEST(Family, KeepsWhatALlavaDoesNotCompute) {
  Graph graph = preset("llava-1.5-7b", {.sequences = 1, .sequence = 1024});
  const auto idle = [&] {
    std::int64_t count = 0;
    for (const SegmentSpec& segment : graph.segments)
      for (const LayerSpec& layer : segment.layers)
        for (const ParameterSpec& parameter : layer.parameters)
          if (!parameter.trainable) count += parameter.elements();
    return count;
  };
  EXPECT_EQ(idle(), 12 * 1024 * 1024 + 13 * 1024 + 2 * 1024);  // a block and the last norm

  train_only(graph.segments, std::vector<std::string>{"vision", "projector", "language"});
  EXPECT_EQ(idle(), 12 * 1024 * 1024 + 13 * 1024 + 2 * 1024);
  EXPECT_THROW(train_only(graph.segments, std::vector<std::string>{"post_layernorm"}), UserError);
  train_only(graph.segments, std::vector<std::string>{"projector"});
  EXPECT_EQ(trained_count(graph.segments), 1024 * 4096 + 4096 + 4096 * 4096 + 4096);
}

TEST(Family, AddsTheRowsOfSeveralVisionLayersAfterLanguageLayers) {
  const Graph graph = preset("deepstack-tiny", {.sequences = 2, .sequence = 64, .images = 3});

  EXPECT_NO_THROW(check(graph));
  EXPECT_EQ(block_count(graph), 4 + 4);
  std::vector<std::string> added;
  for (int s = 0; s < static_cast<int>(graph.segments.size()); ++s) {
    const int merger = source_of(graph, s, "rows");
    if (merger == Graph::kData) continue;
    const auto name = [&](int segment) {
      return graph.segments[static_cast<std::size_t>(segment)].name;
    };
    added.push_back(name(source_of(graph, merger, "x")) + ", " + name(merger) + ", " +
                    name(source_of(graph, s, "x")));
    EXPECT_EQ(*input_at(graph, s, "places"), "places");
  }
  EXPECT_EQ(added, (std::vector<std::string>{"vision block 0, merger 0, block 0",
                                             "vision block 2, merger 1, block 1",
                                             "vision block 3, merger 2, block 2"}));
  EXPECT_EQ(std::ranges::count(optional_segments(graph), true), 1 + 4 + 1 + 1 + 3);
}

TEST(Family, RefusesFeaturesOfLayersThatAreNotThere) {
  const auto complaint = [](std::initializer_list<std::int64_t> layers) -> std::string {
    ModelShape shape = model::find_preset("vlm-tiny").shape;
    for (const std::int64_t layer : layers) shape.vision.deepstack.push_back(layer);
    try {
      check(shape);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint({0, 1}), "");
  EXPECT_EQ(complaint({0, 2}),
            "model.vision.deepstack has 2 after 0, and the tower computes layers 0 to 1; name some "
            "of them in ascending order");
  EXPECT_EQ(complaint({1, 1}),
            "model.vision.deepstack has 1 after 1, and the tower computes layers 0 to 1; name some "
            "of them in ascending order");
  EXPECT_EQ(complaint({0, 1, 2}),
            "model.vision.deepstack has 3 layers, and the rows of each are added after a language "
            "layer of its own; name at most 2");
}

TEST(Family, RefusesImagesThatPatchesDoNotCover) {
  ModelShape shape = model::find_preset("vit-tiny").shape;
  shape.patch = 5;
  try {
    check(shape);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "model.image 28 is not divisible by model.patch 5; patches cover an image without "
                 "a rest");
  }
}

TEST(Family, PiecesCoverFusedWeightsRowByRow) {
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

// 2 FLOPs per weight and token forward, twice that backward; attention's products come on top.
TEST(Family, CountsSixFlopsPerWeightAndToken) {
  const Graph model = preset("gpt2-124m");
  std::int64_t linear = 0;
  std::int64_t weights = 0;
  for (const SegmentSpec& segment : model.segments) {
    for (const LayerSpec& layer : segment.layers) {
      if (layer.kind != "linear" && layer.kind != "loss") continue;
      linear += flops(layer);
      weights += layer.parameters[0].elements();
    }
  }
  EXPECT_EQ(linear, 6 * weights * loss_count(model));
}

TEST(Family, RefusesASequenceLongerThanTheContext) {
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
