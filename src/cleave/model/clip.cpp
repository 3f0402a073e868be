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

/// The last layers of a tower: a row of each sample becomes its features, of length 1.
void add_clip_features(SegmentSpec& segment, const std::string& projection, const Flow& samples,
                       std::int64_t hidden, std::int64_t features) {
  segment.layers.push_back(
      spec::linear(projection, samples, {.in = hidden, .out = features, .weight = Transpose::Yes}));
  segment.layers.push_back(spec::unit_rows(projection + ".unit", samples, features));
}

std::vector<SegmentSpec> clip_image_tower(const ModelShape& s, const Flow& rows) {
  const std::string name = "vision_model.";
  const auto epsilon = static_cast<float>(s.vision.norm_eps);
  std::vector<SegmentSpec> tower = {
      {.name = "vision embedding",
       .layers = {
           patch_rows(s, rows, "vision_model.", Bias::None),
           spec::class_token(name + "embeddings", rows,
                             {.features = s.vision.hidden,
                              .token_name = name + "embeddings.class_embedding",
                              .position_name = name + "embeddings.position_embedding.weight"}),
           spec::layernorm(name + "pre_layrnorm", rows, s.vision.hidden, epsilon)}}};
  for (std::int64_t i = 0; i < s.vision.layers; ++i)
    tower.push_back(image_tower_block(s, rows, "vision_model.", i));
  Flow samples = rows;
  samples.sequence = 1;
  SegmentSpec end{
      .name = "vision features",
      .layers = {spec::first_row(name + "pooler", rows, s.vision.hidden),
                 spec::layernorm(name + "post_layernorm", samples, s.vision.hidden, epsilon)}};
  add_clip_features(end, "visual_projection", samples, s.vision.hidden, s.features);
  tower.push_back(std::move(end));
  return tower;
}

std::vector<SegmentSpec> clip_text_tower(const ModelShape& s, const Flow& rows) {
  std::vector<SegmentSpec> tower = {text_tower_embedding(s, rows)};
  for (std::int64_t i = 0; i < s.layers; ++i)
    tower.push_back(text_tower_block(s, rows, AttentionMask::Causal, i));
  Flow samples = rows;
  samples.sequence = 1;
  SegmentSpec end{.name = "text features",
                  .layers = {spec::picked_row("text_model.pooler", rows, s.hidden),
                             spec::layernorm("text_model.final_layer_norm", samples, s.hidden,
                                             static_cast<float>(s.norm_eps))}};
  add_clip_features(end, "text_projection", samples, s.hidden, s.features);
  tower.push_back(std::move(end));
  return tower;
}

Graph build_clip(const ModelShape& s, const Flow& flow, std::int64_t) {
  require(flow.cache == 0,
          "a clip holds images and texts against each other; it generates nothing");
  Flow rows = flow;
  rows.sequence = s.patches() + 1;
  return pair_up(s, flow,
                 {.image = clip_image_tower(s, rows),
                  .text = clip_text_tower(s, flow),
                  .loss = spec::contrastive_loss("loss", flow,
                                                 {.features = s.features,
                                                  .samples = flow.samples_of_step(),
                                                  .scale_name = "logit_scale"}),
                  .features = s.features});
}

void check_clip(const ModelShape& s) {
  check_towers(s);
  require(s.vision.class_token,
          "the tower of a clip has a class token; leave "
          "model.vision.class_token out, or take kind = \"siglip\"");
  require(s.features >= 1, "model.features is ", s.features,
          "; images and texts of a clip are held against each other by at least one");
}

constexpr ModelShape kClipB32 = {
    .kind = &clip,
    .layers = 12,
    .hidden = 512,
    .heads = 8,
    .kv_heads = 8,
    .ffn = 2048,
    .vocab = 49408,
    .context = 77,
    .tie_embeddings = false,
    .image = 224,
    .patch = 32,
    .channels = 3,
    .gelu = GeluForm::Quick,
    .vision = {.layers = 12, .hidden = 768, .heads = 12, .ffn = 3072, .class_token = true},
    .features = 512};

constexpr ModelShape kClipTiny = {
    .kind = &clip,
    .layers = 2,
    .hidden = 48,
    .heads = 4,
    .kv_heads = 4,
    .ffn = 96,
    .vocab = 256,
    .context = 64,
    .tie_embeddings = false,
    .image = 28,
    .patch = 7,
    .channels = 3,
    .gelu = GeluForm::Quick,
    .vision = {.layers = 2, .hidden = 64, .heads = 4, .ffn = 128, .class_token = true},
    .features = 32};

constexpr std::array<Preset, 2> kClipPresets = {{
    {"clip-vit-b-32", kClipB32, "CLIP: ViT-B/32 at 224 pixels, texts of 77 tokens"},
    {"clip-tiny", kClipTiny, "bytes and images of 28 x 28, for tests"},
}};

}  // namespace

constinit const Family clip = {.name = "clip",
                               .build = build_clip,
                               .check = check_clip,
                               .default_ffn = [](std::int64_t hidden) { return 4 * hidden; },
                               .presets = kClipPresets,
                               .learns_positions = true,
                               .usual_vocabulary = 49408,
                               .hugging_face = &kClipNames,
                               .reads_images = true,
                               .pairs = true,
                               .unread = kUnreadWithoutRotation};

}  // namespace cleave::model
