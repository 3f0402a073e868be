#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/model/decoder.h"
#include "cleave/model/family.h"
#include "cleave/model/presets.h"
#include "cleave/model/shape_keys.h"
#include "cleave/model/towers.h"
#include "cleave/model/vlm_config.h"
#include "cleave/model/vlm_parts.h"
#include "cleave/spec/image_layers.h"

namespace cleave::model {
namespace {

using spec::Flow;

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

/// Where the rows of feature k are added, counted from the join: each layer before it and the join
/// itself stand there, and each feature before it.
int feature_place(std::int64_t k) {
  return static_cast<int>(2 * k + 2);
}

/// After each of the first language layers a segment that adds the rows of a merger.
void add_features(const ModelShape& s, const Flow& flow, std::vector<SegmentSpec>& language) {
  for (std::int64_t k = 0; k < s.vision.deepstack.count; ++k) {
    const std::string name = "deepstack " + std::to_string(k);
    const std::int64_t rows = flow.all_images() * s.image_rows();
    SegmentSpec segment{
        .name = name, .layers = {spec::add_rows(name, flow, s.hidden, rows)}, .module = "language"};
    language.insert(language.begin() + feature_place(k), std::move(segment));
  }
}

/// The patches of images, or what a tower that is not computed has given for them.
std::vector<Graph::Input> image_inputs(const ModelShape& s, const Flow& rows) {
  if (!s.vision.cached)
    return {{.name = "patches",
             .tensor = {"patches", rows.dtype, {rows.sequences * s.patches(), s.patch_values()}},
             .optional = true}};
  std::vector<Graph::Input> inputs;
  for (const TowerFeature& feature : tower_features(s)) {
    const std::string name = "features " + std::to_string(inputs.size());
    inputs.push_back(
        {.name = name,
         .tensor = {name, rows.dtype, {rows.sequences * feature.rows, s.vision.hidden}},
         .optional = true});
  }
  return inputs;
}

/// The edges from the data to the tower, or to what stands in its place.
std::vector<Graph::Edge> image_edges(const ModelShape& s) {
  if (!s.vision.cached) return {{{Graph::kData, "patches"}, {0, "x"}}};
  const int mergers = static_cast<int>(s.vision.deepstack.count);
  std::vector<Graph::Edge> edges = {{{Graph::kData, "features 0"}, {mergers, "x"}}};
  for (int k = 0; k < mergers; ++k)
    edges.push_back({{Graph::kData, "features " + std::to_string(k + 1)}, {k, "x"}});
  return edges;
}

/// The edges of all segments, of which `join` is the first of the language model. A merger reads
/// its layer of the tower and is read where its rows are added; all others form a chain.
void connect(const ModelShape& s, int join, Graph& graph) {
  const int head = static_cast<int>(graph.segments.size()) - 1;
  const int features = static_cast<int>(s.vision.deepstack.count);
  const int projector = join - features - 1;
  graph.edges = image_edges(s);
  graph.edges.push_back({{Graph::kData, "tokens"}, {join, "tokens"}});
  graph.edges.push_back({{Graph::kData, "places"}, {join, "places"}});
  graph.edges.push_back({{Graph::kData, "targets"}, {head, "targets"}});
  for (int segment = s.vision.cached ? projector : 1; segment <= head; ++segment) {
    const bool merger = segment > projector && segment < join;
    if (!merger)
      graph.edges.push_back({{segment == join ? projector : segment - 1, "y"}, {segment, "x"}});
  }
  for (int k = 0; k < features; ++k) {
    const int merger = projector + 1 + k;
    const int block = 1 + static_cast<int>(*(s.vision.deepstack.begin() + k));
    const int added = join + feature_place(k);
    graph.edges.push_back({{s.vision.cached ? k : block, "y"}, {merger, "x"}});
    graph.edges.push_back({{merger, "y"}, {added, "rows"}});
    graph.edges.push_back({{Graph::kData, "places"}, {added, "places"}});
  }
  graph.results = {{"losses", {head, "y"}}};
}

Graph build_vlm(const ModelShape& s, const Flow& flow, std::int64_t loss_blocks) {
  Graph graph = language_part(s, flow, loss_blocks);
  if (flow.cache > 0) return graph;  // of a text that goes on without images
  const Flow rows{.sequences = flow.all_images(),
                  .sequence = s.patches() + (s.vision.class_token ? 1 : 0),
                  .dtype = flow.dtype};
  std::vector<SegmentSpec> segments =
      s.vision.cached ? vlm_kept_tower(s, rows) : vlm_tower(s, rows);
  segments.push_back(vlm_projector(s, rows));
  const std::int64_t features = s.vision.deepstack.count;
  for (std::int64_t k = 0; k < features; ++k) segments.push_back(vlm_merger(s, rows, k));
  const int join = static_cast<int>(segments.size());
  const LayerSpec table = std::move(graph.segments[0].layers[0]);
  graph.segments[0].name = "join";
  graph.segments[0].layers = {spec::image_join("join", flow,
                                               {.rows = rows.sequences * s.image_rows(),
                                                .vocabulary = s.vocab,
                                                .features = s.hidden,
                                                .still = s.pad_token,
                                                .token_name = table.parameters[0].name})};
  // The table is whole wherever it is, so the head that shares it is as well.
  if (s.tie_embeddings) graph.segments.back().layers.back().parameters[0].cut = {};
  add_features(s, flow, graph.segments);
  std::ranges::move(graph.segments, std::back_inserter(segments));
  graph.segments = std::move(segments);
  const std::vector<Graph::Input> images = image_inputs(s, rows);
  graph.inputs.insert(graph.inputs.begin(), images.begin(), images.end());
  graph.inputs.push_back({"places", {"places", DType::I32, {flow.tokens()}}});
  connect(s, join, graph);
  return graph;
}

void check_deepstack(const ModelShape& s) {
  const FeatureLayers& features = s.vision.deepstack;
  const std::int64_t most = std::min(FeatureLayers::kMost, s.layers);
  require(
      features.count <= most, "model.vision.deepstack has ", features.count,
      " layers, and the rows of each are added after a language layer of its own; name at most ",
      most);
  std::int64_t before = -1;
  for (const std::int64_t layer : features) {
    require(layer > before && layer < s.vision.computed_layers(), "model.vision.deepstack has ",
            layer, before < 0 ? "" : detail::concat(" after ", before),
            ", and the tower computes layers 0 to ", s.vision.computed_layers() - 1,
            "; name some of them in ascending order");
    before = layer;
  }
}

void check_vlm(const ModelShape& s) {
  check_decoder(s);
  check_image_tower(s);
  require(!s.vision.class_token || s.vision.layers >= 2, "model.vision.layers is ", s.vision.layers,
          ", and the last layer of a tower with a class token is not computed; use 2 or more");
  check_deepstack(s);
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

constexpr ModelShape kDeepStackTiny = [] {
  ModelShape shape = kVlmTiny;
  shape.layers = 4;
  shape.vision.layers = 5;
  for (const std::int64_t layer : {0, 2, 3}) shape.vision.deepstack.push_back(layer);
  return shape;
}();

constexpr std::array<Preset, 4> kVlmPresets = {{
    {"llava-1.5-7b", kLlava, "LLaVA 1.5: CLIP L/14 at 336 pixels, Vicuna 7B"},
    {"smolvlm-256m", kSmolVlm, "SmolVLM 256M: SigLIP B/16 at 512 pixels, 64 rows for an image"},
    {"vlm-tiny", kVlmTiny, "bytes and images of 28 x 28, for tests"},
    {"deepstack-tiny", kDeepStackTiny, "the same, with features of three vision layers"},
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
                              .reads_images = true,
                              .unread = kUnreadByDecodersOfFixedBias};

}  // namespace cleave::model
