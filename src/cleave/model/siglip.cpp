#include <array>

#include "cleave/base/check.h"
#include "cleave/model/clip_config.h"
#include "cleave/model/family.h"
#include "cleave/model/presets.h"
#include "cleave/model/shape_keys.h"
#include "cleave/model/towers.h"
#include "cleave/spec/contrastive_layers.h"
#include "cleave/spec/image_layers.h"

namespace cleave::model {
namespace {

using spec::Flow;

spec::LinearShape siglip_linear(std::int64_t in, std::int64_t out) {
  return {.in = in, .out = out, .weight = Transpose::Yes, .bias = Bias::Add};
}

/// Keys and values of the pool: the second and third part of one tensor.
LayerSpec pooled_keys(const std::string& name, const Flow& rows, std::int64_t hidden) {
  spec::LinearShape shape = siglip_linear(hidden, 2 * hidden);
  const Piece part{.extent = 2 * hidden, .start = hidden, .whole = 3 * hidden};
  shape.pieces = {part};
  shape.pieces[0].name = name + "in_proj_weight";
  shape.bias_pieces = {part};
  shape.bias_pieces[0].name = name + "in_proj_bias";
  return spec::linear(name + "in_proj", rows, shape);
}

/// A learned query attends to all rows; then a feed-forward part with a residual connection.
SegmentSpec siglip_image_head(const ModelShape& s, const Flow& rows) {
  const std::string name = "vision_model.head.";
  const std::int64_t hidden = s.vision.hidden;
  const auto epsilon = static_cast<float>(s.vision.norm_eps);
  Flow samples = rows;
  samples.sequence = 1;
  SegmentSpec head{.name = "vision features"};
  head.layers.push_back(spec::layernorm("vision_model.post_layernorm", rows, hidden, epsilon));
  head.layers.push_back(pooled_keys(name + "attention.", rows, hidden));
  head.layers.push_back(spec::attention_pool(name + "attention.pool", rows,
                                             {.features = hidden,
                                              .heads = s.vision.heads,
                                              .probe_name = name + "probe",
                                              .in_proj = name + "attention.in_proj_"}));
  head.layers.push_back(
      spec::linear(name + "attention.out_proj", samples, siglip_linear(hidden, hidden)));
  const int branch = static_cast<int>(head.layers.size());
  head.layers.push_back(spec::layernorm(name + "layernorm", samples, hidden, epsilon));
  head.layers.push_back(
      spec::linear(name + "mlp.fc1", samples, siglip_linear(hidden, s.vision.ffn)));
  head.layers.push_back(spec::gelu(name + "mlp.act", samples, s.vision.ffn, s.gelu));
  head.layers.push_back(
      spec::linear(name + "mlp.fc2", samples, siglip_linear(s.vision.ffn, hidden)));
  head.layers.push_back(spec::residual(name + "mlp.residual", samples, hidden, branch));
  head.layers.push_back(spec::unit_rows(name + "unit", samples, hidden));
  return head;
}

std::vector<SegmentSpec> siglip_image_tower(const ModelShape& s, const Flow& rows) {
  std::vector<SegmentSpec> tower = {
      {.name = "vision embedding",
       .layers = {patch_rows(s, rows, "vision_model.", Bias::Add),
                  spec::positions("vision_model.embeddings", rows, s.vision.hidden,
                                  "vision_model.embeddings.position_embedding.weight")}}};
  for (std::int64_t i = 0; i < s.vision.layers; ++i)
    tower.push_back(image_tower_block(s, rows, "vision_model.", i));
  tower.push_back(siglip_image_head(s, rows));
  return tower;
}

std::vector<SegmentSpec> siglip_text_tower(const ModelShape& s, const Flow& rows) {
  std::vector<SegmentSpec> tower = {text_tower_embedding(s, rows)};
  for (std::int64_t i = 0; i < s.layers; ++i)
    tower.push_back(text_tower_block(s, rows, AttentionMask::Full, i));
  Flow samples = rows;
  samples.sequence = 1;
  tower.push_back({.name = "text features",
                   .layers = {spec::last_row("text_model.pooler", rows, s.hidden),
                              spec::layernorm("text_model.final_layer_norm", samples, s.hidden,
                                              static_cast<float>(s.norm_eps)),
                              spec::linear("text_model.head", samples,
                                           siglip_linear(s.hidden, s.vision.hidden)),
                              spec::unit_rows("text_model.head.unit", samples, s.vision.hidden)}});
  return tower;
}

Graph build_siglip(const ModelShape& s, const Flow& flow, std::int64_t) {
  require(flow.cache == 0,
          "a siglip holds images and texts against each other; it generates nothing");
  Flow rows = flow;
  rows.sequence = s.patches();
  return pair_up(s, flow,
                 {.image = siglip_image_tower(s, rows),
                  .text = siglip_text_tower(s, flow),
                  .loss = spec::sigmoid_loss("loss", flow,
                                             {.features = s.vision.hidden,
                                              .samples = flow.samples_of_step(),
                                              .scale_name = "logit_scale",
                                              .bias_name = "logit_bias"}),
                  .features = s.vision.hidden});
}

void check_siglip(const ModelShape& s) {
  check_towers(s);
  require(!s.vision.class_token,
          "the tower of a siglip has no class token; set "
          "model.vision.class_token to false, or take kind = \"clip\"");
  require(s.features == s.vision.hidden, "model.features ", s.features,
          " differs from model.vision.hidden ", s.vision.hidden,
          ", which is what a siglip holds against texts; leave it out");
}

constexpr ModelShape kSiglipB16 = {.kind = &siglip,
                                   .layers = 12,
                                   .hidden = 768,
                                   .heads = 12,
                                   .kv_heads = 12,
                                   .ffn = 3072,
                                   .vocab = 32000,
                                   .context = 64,
                                   .tie_embeddings = false,
                                   .norm_eps = 1e-6,
                                   .image = 224,
                                   .patch = 16,
                                   .channels = 3,
                                   .gelu = GeluForm::Tanh,
                                   .vision = {.layers = 12,
                                              .hidden = 768,
                                              .heads = 12,
                                              .ffn = 3072,
                                              .norm_eps = 1e-6,
                                              .class_token = false},
                                   .features = 768};

constexpr ModelShape kSiglipTiny = {
    .kind = &siglip,
    .layers = 2,
    .hidden = 48,
    .heads = 4,
    .kv_heads = 4,
    .ffn = 96,
    .vocab = 256,
    .context = 64,
    .tie_embeddings = false,
    .norm_eps = 1e-6,
    .image = 28,
    .patch = 7,
    .channels = 3,
    .gelu = GeluForm::Tanh,
    .vision =
        {.layers = 2, .hidden = 48, .heads = 4, .ffn = 96, .norm_eps = 1e-6, .class_token = false},
    .features = 48};

constexpr std::array<Preset, 2> kSiglipPresets = {{
    {"siglip-b-16", kSiglipB16, "SigLIP: B/16 at 224 pixels, texts of 64 tokens"},
    {"siglip-tiny", kSiglipTiny, "bytes and images of 28 x 28, for tests"},
}};

}  // namespace

constinit const Family siglip = {.name = "siglip",
                                 .build = build_siglip,
                                 .check = check_siglip,
                                 .default_ffn = [](std::int64_t hidden) { return 4 * hidden; },
                                 .presets = kSiglipPresets,
                                 .learns_positions = true,
                                 .usual_vocabulary = 32000,
                                 .hugging_face = &kSiglipNames,
                                 .reads_images = true,
                                 .pairs = true,
                                 .unread = kUnreadWithoutRotation};

}  // namespace cleave::model
