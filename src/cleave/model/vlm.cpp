#include <array>
#include <iterator>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/model/decoder.h"
#include "cleave/model/family.h"
#include "cleave/model/presets.h"
#include "cleave/model/towers.h"
#include "cleave/model/vlm_config.h"
#include "cleave/spec/image_layers.h"

namespace cleave::model {
namespace {

using spec::Flow;

/// What checkpoints call the parts.
struct VlmNames {
  std::string vision;     ///< before the names of the tower
  std::string projector;  ///< before those of its layers
  std::string text;       ///< in place of the "model." of a language model
  std::string head;       ///< in place of its "lm_head."
};

VlmNames vlm_names(const ModelShape& s) {
  if (s.shuffle == 0)
    return {.vision = "vision_tower.vision_model.",
            .projector = "multi_modal_projector.",
            .text = "language_model.model.",
            .head = "language_model.lm_head."};
  return {.vision = "model.vision_model.",
          .projector = "model.connector.modality_projection.",
          .text = "model.text_model.",
          .head = "lm_head."};
}

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

/// From rows of the tower to rows of the language model.
SegmentSpec projector(const ModelShape& s, Flow rows) {
  const std::string name = vlm_names(s).projector;
  rows.sequence = s.patches();
  SegmentSpec segment{.name = "projector", .module = "projector"};
  if (s.shuffle > 0) {
    segment.layers.push_back(
        spec::pixel_shuffle(name + "shuffle", rows, s.vision.hidden, s.shuffle));
    rows.sequence = s.image_rows();
    segment.layers.push_back(spec::linear(name + "proj", rows,
                                          {.in = s.shuffle * s.shuffle * s.vision.hidden,
                                           .out = s.hidden,
                                           .weight = Transpose::Yes}));
    return segment;
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
  return segment;
}

std::string renamed(const std::string& name, const VlmNames& names) {
  constexpr std::string_view kText = "model.";
  constexpr std::string_view kHead = "lm_head.";
  if (name.starts_with(kText)) return names.text + name.substr(kText.size());
  if (name.starts_with(kHead)) return names.head + name.substr(kHead.size());
  return name;
}

void rename(SegmentSpec& segment, const VlmNames& names) {
  for (LayerSpec& layer : segment.layers) {
    layer.name = renamed(layer.name, names);
    for (ParameterSpec& parameter : layer.parameters) {
      parameter.name = renamed(parameter.name, names);
      parameter.tied_to = renamed(parameter.tied_to, names);
      for (Piece& piece : parameter.pieces) piece.name = renamed(piece.name, names);
    }
  }
}

/// The language model, which begins with an embedding of its own.
Graph language_part(const ModelShape& s, const Flow& flow, std::int64_t loss_blocks) {
  const VlmNames names = vlm_names(s);
  Graph text = decoder(s, {}, flow, loss_blocks);
  for (SegmentSpec& segment : text.segments) {
    segment.module = "language";
    rename(segment, names);
  }
  return text;
}

Graph build_vlm(const ModelShape& s, const Flow& flow, std::int64_t loss_blocks) {
  Graph graph = language_part(s, flow, loss_blocks);
  if (flow.cache > 0) return graph;  // of a text that goes on without images
  const Flow rows{.sequences = flow.sequences * flow.images,
                  .sequence = s.patches() + (s.vision.class_token ? 1 : 0),
                  .dtype = flow.dtype};
  std::vector<SegmentSpec> segments = {vision_embedding(s, rows)};
  for (std::int64_t i = 0; i < s.vision.computed_layers(); ++i)
    segments.push_back(image_tower_block(s, rows, vlm_names(s).vision, i));
  segments.push_back(vision_rows(s, rows));
  for (SegmentSpec& segment : segments) segment.module = "vision";
  segments.push_back(projector(s, rows));
  const int join = static_cast<int>(segments.size());
  const LayerSpec table = std::move(graph.segments[0].layers[0]);
  graph.segments[0].name = "join";
  graph.segments[0].layers = {spec::image_join("join", flow,
                                               {.rows = rows.sequences * s.image_rows(),
                                                .vocabulary = s.vocab,
                                                .features = s.hidden,
                                                .token_name = table.parameters[0].name})};
  // The table is whole wherever it is, so the head that shares it is as well.
  if (s.tie_embeddings) graph.segments.back().layers.back().parameters[0].cut = {};
  std::ranges::move(graph.segments, std::back_inserter(segments));
  graph.segments = std::move(segments);
  graph.inputs.insert(
      graph.inputs.begin(),
      {.name = "patches",
       .tensor = {"patches", flow.dtype, {rows.sequences * s.patches(), s.patch_values()}},
       .optional = true});
  graph.inputs.push_back({"places", {"places", DType::I32, {flow.tokens()}}});
  const int head = static_cast<int>(graph.segments.size()) - 1;
  graph.edges = {{{Graph::kData, "patches"}, {0, "x"}},
                 {{Graph::kData, "tokens"}, {join, "tokens"}},
                 {{Graph::kData, "places"}, {join, "places"}},
                 {{Graph::kData, "targets"}, {head, "targets"}}};
  join_in_order(graph);
  graph.results = {{"losses", {head, "y"}}};
  return graph;
}

void check_vlm(const ModelShape& s) {
  check_decoder(s);
  check_image_tower(s);
  require(!s.vision.class_token || s.vision.layers >= 2, "model.vision.layers is ", s.vision.layers,
          ", and the last layer of a tower with a class token is not computed; use 2 or more");
  require(s.shuffle == 0 || s.image / s.patch % s.shuffle == 0, "model.projector.shuffle ",
          s.shuffle, " does not divide the ", s.image / s.patch,
          " patches along a side of an image");
  require(s.image_rows() <= s.context, "an image has ", s.image_rows(),
          " rows among the tokens, and model.context is ", s.context, "; raise it");
  require(s.image_token >= 0 && s.image_token < s.vocab, "model.image_token is ", s.image_token,
          ", and the vocabulary has ", s.vocab, " tokens");
}

constexpr ModelShape kLlava = {
    .kind = &vlm,
    .layers = 32,
    .hidden = 4096,
    .heads = 32,
    .kv_heads = 32,
    .ffn = 11008,
    .vocab = 32064,
    .context = 4096,
    .tie_embeddings = false,
    .image = 336,
    .patch = 14,
    .channels = 3,
    .gelu = GeluForm::Quick,
    .vision = {.layers = 24, .hidden = 1024, .heads = 16, .ffn = 4096, .class_token = true},
    .image_token = 32000};

constexpr ModelShape kSmolVlm = {.kind = &vlm,
                                 .layers = 30,
                                 .hidden = 576,
                                 .heads = 9,
                                 .kv_heads = 3,
                                 .ffn = 1536,
                                 .vocab = 49280,
                                 .context = 8192,
                                 .tie_embeddings = false,
                                 .rope_theta = 100000,
                                 .image = 512,
                                 .patch = 16,
                                 .channels = 3,
                                 .gelu = GeluForm::Tanh,
                                 .vision = {.layers = 12,
                                            .hidden = 768,
                                            .heads = 12,
                                            .ffn = 3072,
                                            .norm_eps = 1e-6,
                                            .class_token = false},
                                 .shuffle = 4,
                                 .image_token = 49190};

constexpr ModelShape kVlmTiny = {
    .kind = &vlm,
    .layers = 2,
    .hidden = 64,
    .heads = 4,
    .kv_heads = 2,
    .ffn = 192,
    .vocab = 256,
    .context = 96,
    .tie_embeddings = false,
    .image = 28,
    .patch = 7,
    .channels = 3,
    .gelu = GeluForm::Quick,
    .vision = {.layers = 3, .hidden = 48, .heads = 4, .ffn = 96, .class_token = true}};

constexpr std::array<Preset, 3> kVlmPresets = {{
    {"llava-1.5-7b", kLlava, "LLaVA 1.5: CLIP L/14 at 336 pixels, Vicuna 7B"},
    {"smolvlm-256m", kSmolVlm, "SmolVLM 256M: SigLIP B/16 at 512 pixels, 64 rows for an image"},
    {"vlm-tiny", kVlmTiny, "bytes and images of 28 x 28, for tests"},
}};

}  // namespace

constinit const Family vlm = {.name = "vlm",
                              .build = build_vlm,
                              .check = check_vlm,
                              .default_ffn = gated_ffn,
                              .presets = kVlmPresets,
                              .usual_vocabulary = 32064,
                              .ffn_matrices = 3,
                              .hugging_face = &kVlmNames,
                              .reads_images = true};

}  // namespace cleave::model
