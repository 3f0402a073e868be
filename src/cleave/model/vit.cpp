#include <array>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/model/encoder.h"
#include "cleave/model/family.h"
#include "cleave/model/hugging_face.h"
#include "cleave/model/image_config.h"
#include "cleave/model/presets.h"
#include "cleave/model/shape_keys.h"
#include "cleave/spec/image_layers.h"

namespace cleave::model {
namespace {

using spec::Flow;

/// A linear layer whose weight is stored [out, in], with a bias.
spec::LinearShape vit_linear(std::int64_t in, std::int64_t out) {
  return {.in = in, .out = out, .weight = Transpose::Yes, .bias = Bias::Add};
}

SegmentSpec vit_block(const ModelShape& s, const Flow& flow, std::int64_t index) {
  const std::string name = "vit.encoder.layer." + std::to_string(index) + ".";
  const EncoderShape shape{.hidden = s.hidden,
                           .heads = s.heads,
                           .ffn = s.ffn,
                           .norm_eps = s.norm_eps,
                           .gelu = s.gelu,
                           .heads_key = "model.heads",
                           .ffn_key = "model.ffn"};
  SegmentSpec block = encoder_block(shape,
                                    {.norm_before = name + "layernorm_before",
                                     .attention = name + "attention",
                                     .query = name + "attention.attention.query",
                                     .key = name + "attention.attention.key",
                                     .value = name + "attention.attention.value",
                                     .out = name + "attention.output.dense",
                                     .norm_after = name + "layernorm_after",
                                     .up = name + "intermediate.dense",
                                     .act = name + "intermediate.act",
                                     .down = name + "output.dense"},
                                    flow);
  block.name = "block " + std::to_string(index);
  return block;
}

/// Patches become rows, as a convolution whose stride is its size would have it.
SegmentSpec vit_embedding(const ModelShape& s, const Flow& flow) {
  Flow patches = flow;
  patches.sequence = s.patches();
  LayerSpec projection = spec::linear("vit.embeddings.patch_embeddings.projection", patches,
                                      vit_linear(s.patch_values(), s.hidden));
  projection.backward_input.clear();  // pixels want no gradient
  return {.name = "embedding",
          .layers = {std::move(projection),
                     spec::class_token("vit.embeddings", flow,
                                       {.features = s.hidden,
                                        .token_name = "vit.embeddings.cls_token",
                                        .position_name = "vit.embeddings.position_embeddings"})}};
}

SegmentSpec vit_head(const ModelShape& s, const Flow& flow) {
  Flow samples = flow;
  samples.sequence = 1;
  return {
      .name = "head",
      .layers = {spec::layernorm("vit.layernorm", flow, s.hidden, static_cast<float>(s.norm_eps)),
                 spec::first_row("vit.pooler", flow, s.hidden),
                 spec::linear("classifier", samples, vit_linear(s.hidden, s.classes)),
                 spec::class_loss("loss", samples, s.classes)}};
}

Graph build_vit(const ModelShape& s, const Flow& flow, std::int64_t) {
  require(flow.cache == 0, "a vit classifies images; it generates nothing");
  Flow rows = flow;
  rows.sequence = s.patches() + 1;
  Graph graph;
  graph.dtype = flow.dtype;
  graph.inputs = {
      {"patches", {"patches", flow.dtype, {flow.sequences * s.patches(), s.patch_values()}}},
      {"labels", {"labels", DType::I32, {flow.sequences}}, s.classes}};
  graph.segments.push_back(vit_embedding(s, rows));
  for (std::int64_t i = 0; i < s.layers; ++i) graph.segments.push_back(vit_block(s, rows, i));
  graph.segments.push_back(vit_head(s, rows));
  const int head = static_cast<int>(graph.segments.size()) - 1;
  graph.edges = {{{Graph::kData, "patches"}, {0, "x"}},
                 {{Graph::kData, "labels"}, {head, "labels"}}};
  join_in_order(graph);
  graph.results = {{"losses", {head, "y"}}};
  return graph;
}

void check_vit(const ModelShape& s) {
  require(s.kv_heads == s.heads, "model.kv_heads ", s.kv_heads, " differs from model.heads ",
          s.heads, ", but vit has no grouped heads; leave model.kv_heads out");
  require(s.image % s.patch == 0, "model.image ", s.image, " is not divisible by model.patch ",
          s.patch, "; patches cover an image without a rest");
}

void read_vit(const ConfigJson& config, ModelShape& shape) {
  shape.layers = config.whole("num_hidden_layers", 12);
  shape.hidden = config.whole("hidden_size", 768);
  shape.heads = shape.kv_heads = config.whole("num_attention_heads", 12);
  shape.ffn = config.whole("intermediate_size", 3072);
  shape.norm_eps = config.number("layer_norm_eps", 1e-12);
  shape.gelu = read_gelu(config, "hidden_act", "gelu");
  read_image(config, {}, shape);
  if (!config.truth("qkv_bias", true))
    config.refuse("qkv_bias", "cleave has biases of q, k and v in this family");
  shape.classes = config.entries("id2label");
  if (shape.classes == 0) shape.classes = config.whole("num_labels", 2);
  shape.vocab = shape.classes;
  shape.context = shape.patches() + 1;
  shape.tie_embeddings = false;
  // These keys describe heads that a classifier does not have.
  for (const char* key : {"encoder_stride", "pooler_act", "pooler_output_size", "num_labels"})
    config.pass_over(key);
}

void write_vit(const ModelShape& shape, ConfigJsonText& config) {
  config.set("num_hidden_layers", shape.layers);
  config.set("hidden_size", shape.hidden);
  config.set("num_attention_heads", shape.heads);
  config.set("intermediate_size", shape.ffn);
  config.set("layer_norm_eps", shape.norm_eps);
  config.set("hidden_act", gelu_name(shape.gelu));
  config.set("qkv_bias", true);
  write_image(shape, config);
  ConfigJsonText names, numbers;
  for (std::int64_t i = 0; i < shape.classes; ++i) {
    const std::string name = "LABEL_" + std::to_string(i);
    names.set(std::to_string(i), name);
    numbers.set(name, i);
  }
  config.set("id2label", names);
  config.set("label2id", numbers);
}

constexpr HuggingFace kVitNames = {.model_type = "vit",
                                   .architecture = "ViTForImageClassification",
                                   .read = read_vit,
                                   .write = write_vit,
                                   .stored = stored_image_shape};

struct VitSizes {
  std::int64_t layers;
  std::int64_t hidden;
  std::int64_t heads;
};

constexpr ModelShape vit_shape(const VitSizes& sizes, std::int64_t patch, std::int64_t image,
                               std::int64_t classes) {
  return {.kind = &vit,
          .layers = sizes.layers,
          .hidden = sizes.hidden,
          .heads = sizes.heads,
          .kv_heads = sizes.heads,
          .ffn = 4 * sizes.hidden,
          .vocab = classes,
          .context = (image / patch) * (image / patch) + 1,
          .tie_embeddings = false,
          .norm_eps = 1e-12,
          .image = image,
          .patch = patch,
          .channels = 3,
          .classes = classes,
          .gelu = GeluForm::Exact};
}

constexpr ModelShape vit_tiny() {
  ModelShape shape = vit_shape({4, 64, 4}, 7, 28, 10);
  shape.channels = 1;
  return shape;
}

constexpr std::array<Preset, 5> kVitPresets = {{
    {"vit-s-16", vit_shape({12, 384, 6}, 16, 224, 1000), "ViT small, patches of 16"},
    {"vit-b-16", vit_shape({12, 768, 12}, 16, 224, 1000), "ViT base, patches of 16"},
    {"vit-l-16", vit_shape({24, 1024, 16}, 16, 224, 1000), "ViT large, patches of 16"},
    {"vit-h-14", vit_shape({32, 1280, 16}, 14, 224, 1000), "ViT huge, patches of 14"},
    {"vit-tiny", vit_tiny(), "four layers of 64 on grey images of 28 x 28, for tests"},
}};

}  // namespace

constinit const Family vit = {.name = "vit",
                              .build = build_vit,
                              .check = check_vit,
                              .default_ffn = [](std::int64_t hidden) { return 4 * hidden; },
                              .presets = kVitPresets,
                              .hugging_face = &kVitNames,
                              .reads_images = true,
                              .reads_tokens = false,
                              .unread = kUnreadWithoutRotation};

}  // namespace cleave::model
