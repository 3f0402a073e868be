#include "cleave/shard/graph_share.h"

#include "support/errors.h"
#include <gtest/gtest.h>

#include "cleave/model/presets.h"
#include "cleave/shard/traits.h"

namespace cleave::shard {
namespace {

LayerTraits traits_of(std::string_view kind) {
  if (kind == "linear") return linear_traits();
  if (kind == "attention") return attention_traits();
  if (kind == "gelu" || kind == "swiglu") return activation_traits();
  if (kind == "layernorm") return layernorm_traits();
  if (kind == "rmsnorm") return rmsnorm_traits();
  if (kind == "residual") return residual_traits();
  if (kind == "embedding") return embedding_traits();
  if (kind == "loss") return loss_traits();
  return {};
}

Graph tiny(const char* preset) {
  return model::graph_of(model::find_preset(preset).shape, {.sequences = 1, .sequence = 16});
}

/// Elements that a device owns: neither copies nor tied weights.
std::int64_t owned(const Graph& share) {
  std::int64_t count = 0;
  for (const SegmentSpec& segment : share.segments) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters) {
        for (const Piece& piece : parameter.pieces) {
          if (piece.copy || !parameter.tied_to.empty()) continue;
          count += parameter.elements() / parameter.shape[piece.dim] * piece.extent;
        }
      }
    }
  }
  return count;
}

std::int64_t owned_by_all(const Graph& whole, const TensorShare& share) {
  std::int64_t count = 0;
  for (int rank = 0; rank < share.devices; ++rank) {
    TensorShare one = share;
    one.rank = rank;
    count += owned(share_of(whole, one, traits_of));
  }
  return count;
}

// Every element of the model belongs to one shard; biases and norms to the first device.
TEST(GraphShare, SharesOwnEveryParameterOnce) {
  for (const char* name : {"gpt-tiny", "llama-tiny"}) {
    const Graph whole = tiny(name);
    EXPECT_EQ(owned_by_all(whole, {.shards = 4, .devices = 2}), parameter_count(whole)) << name;
    EXPECT_EQ(owned_by_all(whole, {.shards = 4, .devices = 4}), parameter_count(whole)) << name;
  }
}

TEST(GraphShare, OfOneShardIsTheGraphItself) {
  const Graph whole = tiny("gpt-tiny");
  EXPECT_EQ(share_of(whole, {}, traits_of), whole);
  EXPECT_NE(share_of(whole, {.shards = 2}, traits_of), whole);
}

TEST(GraphShare, CutsChainsAndLeavesTheRestOnEveryDevice) {
  const Graph share = share_of(tiny("llama-tiny"), {.shards = 2, .devices = 2}, traits_of);
  std::vector<std::string> kinds;
  for (const LayerSpec& layer : share.segments[1].layers) kinds.push_back(layer.kind);
  EXPECT_EQ(kinds, (std::vector<std::string>{"token_sliced", "sharded", "residual", "token_sliced",
                                             "sharded", "residual"}));
  EXPECT_EQ(share.segments[1].layers[2].skip, 0);
  EXPECT_EQ(share.segments[1].layers[5].skip, 3);
}

// What a user put into the graph stays in it: the layer, its parameter and its place.
TEST(GraphShare, KeepsLayersThatItDoesNotKnow) {
  Graph whole = tiny("gpt-tiny");
  LayerSpec own = whole.segments[1].layers[4];  // the first residual
  own.kind = "own";
  own.name = "own";
  own.skip = -1;
  own.dx_is_dy = false;
  own.parameters = {{.name = "gain", .shape = {64}, .pieces = {{.name = "gain", .extent = 64}}}};
  auto& layers = whole.segments[1].layers;
  layers.insert(layers.begin() + 4, own);
  layers[10].skip = 6;
  for (const bool sequence_parallel : {false, true}) {
    const TensorShare second{
        .shards = 2, .devices = 2, .rank = 1, .sequence_parallel = sequence_parallel};
    const LayerSpec kept = share_of(whole, second, traits_of).segments[1].layers[2];
    EXPECT_EQ(kept.kind, sequence_parallel ? "gathered" : "own");
    EXPECT_EQ(kept.parameters[0].name, "gain");
    EXPECT_TRUE(kept.parameters[0].pieces[0].copy);
    EXPECT_EQ(kept.y.shape[0], sequence_parallel ? 8 : 16);
  }
  EXPECT_EQ(owned_by_all(whole, {.shards = 2, .devices = 2}), parameter_count(whole));
}

// A chain is cut only as a whole: with an activation that nobody can cut, none of it is.
TEST(GraphShare, ComputesAChainWholeThatCannotBeCut) {
  Graph whole = tiny("gpt-tiny");
  whole.segments[1].layers[7].kind = "own activation";
  const Graph share = share_of(whole, {.shards = 2, .devices = 2}, traits_of);
  EXPECT_EQ(share.segments[1].layers[4].kind, "linear");
  EXPECT_EQ(share.segments[1].layers[5].kind, "own activation");
  EXPECT_EQ(share.segments[1].layers[6].parameters, whole.segments[1].layers[8].parameters);
  EXPECT_EQ(owned_by_all(whole, {.shards = 2, .devices = 2}), parameter_count(whole));
}

TEST(GraphShare, RefusesToCutOneOfTwoTiedWeights) {
  Graph whole = tiny("gpt-tiny");
  whole.segments[0].layers[0].kind = "own embedding";
  EXPECT_EQ(
      testing::user_error([&] { share_of(whole, {.shards = 2, .devices = 2}, traits_of); }),
      "parameter lm_head.weight#0 of layer head is tied to transformer.wte.weight#0, but only "
      "one of the two is cut into tensor shards; give both the same rule, or do not tie them");
}

TEST(GraphShare, SaysWhatCannotBeCut) {
  const ModelShape shape{.kind = &model::llama,
                         .layers = 1,
                         .hidden = 48,
                         .heads = 12,
                         .kv_heads = 3,
                         .ffn = 64,
                         .vocab = 61,
                         .context = 16};
  const auto refused = [&](std::int64_t tokens, int shards) {
    return testing::user_error([&] {
      share_of(model::graph_of(shape, {.sequence = tokens}), {.shards = shards, .devices = shards},
               traits_of);
    });
  };
  EXPECT_EQ(refused(16, 8),
            "model.heads 12 cannot be divided among 8 tensor shards; choose numerics.tensor_shards "
            "(or parallel.tensor) that divides it");
  EXPECT_EQ(refused(16, 2),
            "model.kv_heads 3 and 2 tensor shards do not fit: one must divide the other; change "
            "numerics.tensor_shards");
  EXPECT_EQ(refused(15, 4),
            "the 15 rows of a microbatch in model.layers.0.input_layernorm cannot be divided among "
            "4 tensor shards; change train.microbatch or train.sequence, or choose "
            "numerics.tensor_shards (or parallel.tensor) that divides them");
}

}  // namespace
}  // namespace cleave::shard
