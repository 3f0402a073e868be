#include <array>
#include <string>

#include "cleave/base/check.h"
#include "cleave/model/family.h"
#include "cleave/model/presets.h"
#include "cleave/model/shape_keys.h"
#include "cleave/spec/image_layers.h"
#include "cleave/spec/map_layers.h"
#include "cleave/spec/port_layers.h"
#include "cleave/spec/window_layers.h"

namespace cleave::model {

namespace {

using spec::Flow;

constexpr std::int64_t kUnetSquare = 3;
constexpr std::int64_t kUnetGroups = 4;
// At the lowest level: far above any unet, and few enough for all bytes to be counted exactly.
constexpr std::int64_t kUnetMostChannels = 1 << 20;

/// Square images at a level of the network.
MapShape level(const ModelShape& s, std::int64_t depth) {
  return {s.image >> depth, s.image >> depth, s.hidden << depth};
}

WindowShape window_on(const MapShape& map, std::int64_t size, std::int64_t stride) {
  return {.height = map.height,
          .width = map.width,
          .channels = map.channels,
          .size = size,
          .stride = stride};
}

/// A convolution that keeps the size of the image, a norm over groups of its channels, and relu.
void add_features(SegmentSpec& segment, const std::string& name, const Flow& flow,
                  const MapShape& from, const MapShape& to, float epsilon) {
  segment.layers.push_back(spec::pad(name + ".pad", flow, from, kUnetSquare / 2));
  const MapShape padded{from.height + kUnetSquare - 1, from.width + kUnetSquare - 1, from.channels};
  segment.layers.push_back(
      spec::convolution(name + ".conv", flow, window_on(padded, kUnetSquare, 1), to.channels));
  segment.layers.push_back(
      spec::group_norm(name + ".norm", flow, to,
                       {.channels = to.channels, .groups = kUnetGroups, .epsilon = epsilon}));
  segment.layers.push_back(spec::relu(name + ".relu", flow, to.values()));
}

SegmentSpec unet_down(const ModelShape& s, const Flow& flow, std::int64_t depth) {
  const std::string name = "down." + std::to_string(depth);
  SegmentSpec segment{.name = name, .block = true};
  const MapShape above = level(s, depth - 1);
  segment.layers.push_back(spec::max_pool(name + ".pool", flow, window_on(above, 2, 2)));
  const MapShape pooled{above.height / 2, above.width / 2, above.channels};
  add_features(segment, name, flow, pooled, level(s, depth), static_cast<float>(s.norm_eps));
  return segment;
}

/// Joins what comes up from below to what was there on the way down.
SegmentSpec unet_up(const ModelShape& s, const Flow& flow, std::int64_t depth) {
  const std::string name = "up." + std::to_string(depth);
  SegmentSpec segment{.name = name, .block = true};
  const MapShape below = level(s, depth + 1);
  const MapShape here = level(s, depth);
  segment.layers.push_back(spec::upsample(name + ".upsample", flow, below, 2));
  segment.layers.push_back(spec::concat_port(
      name + ".concat", flow,
      {.places = here.pixels(), .own = below.channels, .other = here.channels}, "skip"));
  const MapShape joined{here.height, here.width, below.channels + here.channels};
  add_features(segment, name, flow, joined, here, static_cast<float>(s.norm_eps));
  return segment;
}

/// Every pixel votes for a class, and the mean decides.
SegmentSpec unet_head(const ModelShape& s, const Flow& flow) {
  const MapShape top = level(s, 0);
  return {"head",
          {spec::convolution("head.conv", flow, window_on(top, 1, 1), s.classes),
           spec::mean_pixels("head.mean", flow, {top.height, top.width, s.classes}),
           spec::class_loss("loss", flow, s.classes)}};
}

// With two levels below the first:
//
//   stem ------------------> up.0 -> head
//     down.1 ------> up.1
//           down.2
Graph build_unet(const ModelShape& s, const Flow& flow, std::int64_t) {
  require(flow.cache == 0, "a unet classifies images; it generates nothing");
  Flow rows = flow;  // a row for each image
  rows.sequence = 1;
  const std::int64_t depth = s.layers / 2;
  const MapShape pixels{s.image, s.image, s.channels};
  Graph graph;
  graph.dtype = flow.dtype;
  graph.inputs = {{"patches", {"patches", flow.dtype, {flow.sequences, pixels.values()}}},
                  {"labels", {"labels", DType::I32, {flow.sequences}}, s.classes}};
  graph.segments.push_back({.name = "stem"});
  add_features(graph.segments[0], "stem", rows, pixels, level(s, 0),
               static_cast<float>(s.norm_eps));
  for (std::int64_t i = 1; i <= depth; ++i) graph.segments.push_back(unet_down(s, rows, i));
  for (std::int64_t i = depth; i-- > 0;) graph.segments.push_back(unet_up(s, rows, i));
  graph.segments.push_back(unet_head(s, rows));
  const int head = static_cast<int>(graph.segments.size()) - 1;
  graph.edges = {{{Graph::kData, "patches"}, {0, "x"}},
                 {{Graph::kData, "labels"}, {head, "labels"}}};
  join_in_order(graph);
  for (int i = 0; i < depth; ++i) graph.edges.push_back({{i, "y"}, {head - 1 - i, "skip"}});
  graph.results = {{"losses", {head, "y"}}};
  return graph;
}

void check_unet(const ModelShape& s) {
  require(s.layers % 2 == 0, "model.layers is ", s.layers,
          ", and a unet goes up as often as it goes down; make it even");
  require(s.heads == 1 && s.kv_heads == 1, "a unet has no attention: model.heads is 1, not ",
          s.heads);
  require(s.hidden % kUnetGroups == 0, "model.hidden ", s.hidden,
          " channels cannot be divided into the ", kUnetGroups, " groups of a norm");
  require(s.patch == 1, "model.patch is ", s.patch,
          ", and a unet reads single pixels; leave it out");
  require(s.layers / 2 < 14 && s.image % (std::int64_t{1} << (s.layers / 2)) == 0, "model.image ",
          s.image, " cannot be halved ", s.layers / 2,
          " times; make it a multiple of 2 to the power of half of model.layers");
  require(s.hidden <= kUnetMostChannels >> s.layers / 2, "model.hidden ", s.hidden,
          " doubles at each of ", s.layers / 2, " levels, to more than the ", kUnetMostChannels,
          " channels that can be planned for; make it or model.layers smaller");
}

constexpr ModelShape kUnetTiny = {.kind = &unet,
                                  .layers = 4,
                                  .hidden = 8,
                                  .heads = 1,
                                  .kv_heads = 1,
                                  .ffn = 8,
                                  .vocab = 10,
                                  .context = 28 * 28 + 1,
                                  .tie_embeddings = false,
                                  .image = 28,
                                  .patch = 1,
                                  .channels = 1,
                                  .classes = 10};

constexpr std::array<Preset, 1> kUnetPresets = {{
    {"unet-tiny", kUnetTiny, "two levels down and up on grey images of 28 x 28, for tests"},
}};

}  // namespace

constinit const Family unet = {.name = "unet",
                               .build = build_unet,
                               .check = check_unet,
                               .default_ffn = [](std::int64_t hidden) { return hidden; },
                               .presets = kUnetPresets,
                               .reads_images = true,
                               .reads_tokens = false,
                               .reads_pixels = true,
                               .unread = kUnreadWithoutRotation};

}  // namespace cleave::model
