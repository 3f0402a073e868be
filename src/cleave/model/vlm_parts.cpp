#include "cleave/model/vlm_parts.h"

#include <algorithm>
#include <utility>

#include "cleave/model/towers.h"
#include "cleave/spec/image_layers.h"

namespace cleave::model {
namespace {

using spec::Flow;

/// Patches become rows, with positions and perhaps a class token.
SegmentSpec vision_embedding(const ModelShape& s, const Flow& rows) {
  const std::string name = vlm_names(s).vision;
  const bool class_token = s.vision.class_token;
  LayerSpec projection = patch_rows(s, rows, name, class_token ? Bias::None : Bias::Add);
  SegmentSpec segment{.name = "vision embedding", .layers = {std::move(projection)}};
  const std::string positions = name + "embeddings.position_embedding.weight";
  if (!class_token) {
    segment.layers.push_back(
        spec::positions(name + "embeddings", rows, s.vision.hidden, positions));
    return segment;
  }
  segment.layers.push_back(spec::class_token(name + "embeddings", rows,
                                             {.features = s.vision.hidden,
                                              .token_name = name + "embeddings.class_embedding",
                                              .position_name = positions}));
  segment.layers.push_back(spec::layernorm(name + "pre_layrnorm", rows, s.vision.hidden,
                                           static_cast<float>(s.vision.norm_eps)));
  return segment;
}

/// Adds the parameters of `layer` to those that are saved and never computed with.
void keep_idle(const LayerSpec& layer, LayerSpec& keeper) {
  for (ParameterSpec parameter : layer.parameters) {
    parameter.trainable = false;
    parameter.idle = true;
    parameter.hidden = false;
    parameter.cut = {};
    keeper.parameters.push_back(std::move(parameter));
  }
}

/// What the tower gives: rows without the class token, or normed ones.
SegmentSpec vision_rows(const ModelShape& s, const Flow& rows) {
  const std::string name = vlm_names(s).vision;
  LayerSpec norm = spec::layernorm(name + "post_layernorm", rows, s.vision.hidden,
                                   static_cast<float>(s.vision.norm_eps));
  if (!s.vision.class_token) return {.name = "vision rows", .layers = {std::move(norm)}};
  LayerSpec patches = spec::without_first(name + "patches", rows, s.vision.hidden);
  for (const LayerSpec& layer : image_tower_block(s, rows, name, s.vision.layers - 1).layers)
    keep_idle(layer, patches);
  keep_idle(norm, patches);
  return {.name = "vision rows", .layers = {std::move(patches)}};
}

/// What makes rows of the language model from rows of patches; `name` stands before its layers.
void add_projection(const ModelShape& s, Flow rows, const std::string& name, SegmentSpec& segment) {
  if (s.shuffle > 0) {
    segment.layers.push_back(
        spec::pixel_shuffle(name + "shuffle", rows, s.vision.hidden, s.shuffle));
    rows.sequence = s.image_rows();
    segment.layers.push_back(spec::linear(name + "proj", rows,
                                          {.in = s.shuffle * s.shuffle * s.vision.hidden,
                                           .out = s.hidden,
                                           .weight = Transpose::Yes}));
    return;
  }
  const CutSpan inside{.units = s.hidden, .what = "model.hidden"};
  segment.layers.push_back(spec::linear(name + "linear_1", rows,
                                        {.in = s.vision.hidden,
                                         .out = s.hidden,
                                         .weight = Transpose::Yes,
                                         .bias = Bias::Add,
                                         .rule = CutRule::Column,
                                         .spans = {inside}}));
  segment.layers.push_back(spec::gelu(name + "act", rows, s.hidden, GeluForm::Exact));
  segment.layers.push_back(spec::linear(name + "linear_2", rows,
                                        {.in = s.hidden,
                                         .out = s.hidden,
                                         .weight = Transpose::Yes,
                                         .bias = Bias::Add,
                                         .rule = CutRule::Row,
                                         .spans = {inside}}));
}

Flow patches_of(const ModelShape& s, Flow rows) {
  rows.sequence = s.patches();
  return rows;
}

}  // namespace

VlmNames vlm_names(const ModelShape& s) {
  if (s.shuffle == 0)
    return {.vision = "vision_tower.vision_model.",
            .projector = "multi_modal_projector.",
            .mergers = "deepstack_merger_list.",
            .text = "language_model.model.",
            .head = "language_model.lm_head."};
  return {.vision = "model.vision_model.",
          .projector = "model.connector.modality_projection.",
          .mergers = "model.connector.deepstack_merger_list.",
          .text = "model.text_model.",
          .head = "lm_head."};
}

std::vector<SegmentSpec> vlm_tower(const ModelShape& s, const Flow& rows) {
  std::vector<SegmentSpec> segments = {vision_embedding(s, rows)};
  for (std::int64_t i = 0; i < s.vision.computed_layers(); ++i)
    segments.push_back(image_tower_block(s, rows, vlm_names(s).vision, i));
  segments.push_back(vision_rows(s, rows));
  for (SegmentSpec& segment : segments) segment.module = "vision";
  return segments;
}

std::vector<TowerFeature> tower_features(const ModelShape& s) {
  std::vector<TowerFeature> features = {{"vision rows", s.patches()}};
  for (const std::int64_t layer : s.vision.deepstack)
    features.push_back(
        {"vision block " + std::to_string(layer), s.patches() + (s.vision.class_token ? 1 : 0)});
  return features;
}

std::vector<SegmentSpec> vlm_kept_tower(const ModelShape& s, const Flow& rows) {
  std::vector<SegmentSpec> segments;
  for (const TowerFeature& feature : tower_features(s)) {
    Flow own = rows;
    own.sequence = feature.rows;
    segments.push_back(
        {.name = "kept " + feature.segment,
         .layers = {spec::kept_rows("kept " + feature.segment, own, s.vision.hidden)},
         .module = "vision"});
  }
  for (const SegmentSpec& segment : vlm_tower(s, rows))
    for (const LayerSpec& layer : segment.layers) keep_idle(layer, segments[0].layers[0]);
  std::ranges::rotate(segments, segments.begin() + 1);
  return segments;
}

SegmentSpec vlm_projector(const ModelShape& s, const Flow& rows) {
  SegmentSpec segment{.name = "projector", .module = "projector"};
  add_projection(s, patches_of(s, rows), vlm_names(s).projector, segment);
  return segment;
}

SegmentSpec vlm_merger(const ModelShape& s, const Flow& rows, std::int64_t index) {
  const std::string name = vlm_names(s).mergers + std::to_string(index) + ".";
  SegmentSpec segment{.name = "merger " + std::to_string(index), .module = "projector"};
  if (s.vision.class_token)
    segment.layers.push_back(spec::without_first(name + "patches", rows, s.vision.hidden));
  const Flow patches = patches_of(s, rows);
  segment.layers.push_back(spec::layernorm(name + "norm", patches, s.vision.hidden,
                                           static_cast<float>(s.vision.norm_eps)));
  add_projection(s, patches, name, segment);
  return segment;
}

}  // namespace cleave::model
