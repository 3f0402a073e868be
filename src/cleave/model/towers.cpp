#include "cleave/model/towers.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/model/encoder.h"
#include "cleave/model/family.h"
#include "cleave/spec/port_layers.h"

namespace cleave::model {
namespace {

SegmentSpec tower_block(const EncoderShape& shape, const std::string& name,
                        const spec::Flow& rows) {
  return encoder_block(shape,
                       {.norm_before = name + "layer_norm1",
                        .attention = name + "self_attn",
                        .query = name + "self_attn.q_proj",
                        .key = name + "self_attn.k_proj",
                        .value = name + "self_attn.v_proj",
                        .out = name + "self_attn.out_proj",
                        .norm_after = name + "layer_norm2",
                        .up = name + "mlp.fc1",
                        .act = name + "mlp.act",
                        .down = name + "mlp.fc2"},
                       rows);
}

}  // namespace

SegmentSpec image_tower_block(const ModelShape& s, const spec::Flow& rows,
                              const std::string& prefix, std::int64_t index) {
  SegmentSpec block = tower_block({.hidden = s.vision.hidden,
                                   .heads = s.vision.heads,
                                   .ffn = s.vision.ffn,
                                   .norm_eps = s.vision.norm_eps,
                                   .gelu = s.gelu,
                                   .heads_key = "model.vision.heads",
                                   .ffn_key = "model.vision.ffn"},
                                  prefix + "encoder.layers." + std::to_string(index) + ".", rows);
  block.name = "vision block " + std::to_string(index);
  return block;
}

SegmentSpec text_tower_block(const ModelShape& s, const spec::Flow& rows, AttentionMask mask,
                             std::int64_t index) {
  SegmentSpec block = tower_block({.hidden = s.hidden,
                                   .heads = s.heads,
                                   .ffn = s.ffn,
                                   .norm_eps = s.norm_eps,
                                   .gelu = s.gelu,
                                   .mask = mask,
                                   .heads_key = "model.heads",
                                   .ffn_key = "model.ffn"},
                                  "text_model.encoder.layers." + std::to_string(index) + ".", rows);
  block.name = "text block " + std::to_string(index);
  return block;
}

SegmentSpec text_tower_embedding(const ModelShape& s, const spec::Flow& rows) {
  const std::string name = "text_model.embeddings.";
  return {.name = "text embedding",
          .layers = {spec::embedding("text_model.embeddings", rows,
                                     {.vocabulary = s.vocab,
                                      .features = s.hidden,
                                      .context = s.context,
                                      .token_name = name + "token_embedding.weight",
                                      .position_name = name + "position_embedding.weight"})}};
}

LayerSpec patch_rows(const ModelShape& s, const spec::Flow& rows, const std::string& prefix,
                     Bias bias) {
  spec::Flow patches = rows;
  patches.sequence = s.patches();
  LayerSpec projection = spec::linear(
      prefix + "embeddings.patch_embedding", patches,
      {.in = s.patch_values(), .out = s.vision.hidden, .weight = Transpose::Yes, .bias = bias});
  projection.backward_input.clear();  // pixels want no gradient
  return projection;
}

Graph pair_up(const ModelShape& s, const spec::Flow& flow, Towers towers) {
  Graph graph;
  graph.dtype = flow.dtype;
  graph.inputs = {
      {"patches", {"patches", flow.dtype, {flow.sequences * s.patches(), s.patch_values()}}},
      {"tokens", {"tokens", DType::I32, {flow.tokens()}}, s.vocab},
      {"ends", {"ends", DType::I32, {flow.sequences}}, flow.tokens()}};
  for (SegmentSpec& segment : towers.image) segment.module = "vision";
  for (SegmentSpec& segment : towers.text) segment.module = "language";
  const int images = static_cast<int>(towers.image.size()) - 1;
  const int texts = images + static_cast<int>(towers.text.size());
  graph.segments = std::move(towers.image);
  std::ranges::move(towers.text, std::back_inserter(graph.segments));
  const spec::Flow samples{.sequences = flow.sequences};  // features are f32
  graph.segments.push_back(
      {.name = "pairs",
       .layers = {spec::concat_port("pairs", samples,
                                    {.own = towers.features, .other = towers.features}, "text")}});
  graph.segments.push_back({.name = "loss", .layers = {std::move(towers.loss)}});
  graph.edges = {{{Graph::kData, "patches"}, {0, "x"}},
                 {{Graph::kData, "tokens"}, {images + 1, "x"}}};
  for (int segment = 0; segment <= texts; ++segment) {
    if (segment == images) continue;
    graph.edges.push_back({{segment, "y"}, {segment + 1, segment == texts ? "text" : "x"}});
  }
  graph.edges.push_back({{images, "y"}, {texts + 1, "x"}});
  graph.edges.push_back({{texts + 1, "y"}, {texts + 2, "x"}});
  for (const ReadTensor& read : graph.segments[static_cast<std::size_t>(texts)].layers[0].reads)
    graph.edges.push_back({{Graph::kData, read.port}, {texts, read.port}});
  if (graph.segments[static_cast<std::size_t>(texts)].layers[0].reads.empty())
    graph.inputs.pop_back();  // nothing asks where texts end
  graph.results = {{"losses", {texts + 2, "y"}}};
  return graph;
}

void check_image_tower(const ModelShape& s) {
  const VisionShape& v = s.vision;
  check_vision_sizes(s);
  require(v.hidden % v.heads == 0, "model.vision.hidden ", v.hidden,
          " is not divisible by model.vision.heads ", v.heads);
  require(v.norm_eps > 0 && v.norm_eps < 1, "model.vision.norm_eps is ", v.norm_eps,
          "; it must lie between 0 and 1, for example 1e-5");
  require(s.image % s.patch == 0, "model.image ", s.image, " is not divisible by model.patch ",
          s.patch, "; patches cover an image without a rest");
}

void check_towers(const ModelShape& s) {
  check_image_tower(s);
  require(s.kv_heads == s.heads, "model.kv_heads ", s.kv_heads, " differs from model.heads ",
          s.heads, ", but its towers have no grouped heads; leave model.kv_heads out");
  require(!s.vision.cached, "data.cache is of models that put images into a text, and a ",
          s.kind->name, " does not; leave it out");
  require(s.shuffle == 0 && s.image_token == 0 && s.vision.deepstack.empty(),
          "model.projector.shuffle, model.vision.deepstack and model.image_token are of models "
          "that put images into a "
          "text; leave them out");
}

}  // namespace cleave::model
