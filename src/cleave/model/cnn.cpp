#include <array>
#include <cmath>

#include "cleave/base/check.h"
#include "cleave/model/family.h"
#include "cleave/model/presets.h"
#include "cleave/model/shape_keys.h"
#include "cleave/spec/image_layers.h"
#include "cleave/spec/window_layers.h"

namespace cleave::model {

namespace {

using spec::Flow;

// LeNet's: two convolutions by squares of 5, each followed by pooling in squares of 2.
constexpr std::int64_t kSquare = 5;
constexpr std::int64_t kPool = 2;
constexpr std::int64_t kFirstChannels = 6;
constexpr std::int64_t kSecondChannels = 16;

/// Images of one side at a place of the network.
struct Map {
  std::int64_t side = 0;
  std::int64_t channels = 0;

  WindowShape window(std::int64_t size, std::int64_t stride) const {
    return {.height = side, .width = side, .channels = channels, .size = size, .stride = stride};
  }
  std::int64_t values() const { return side * side * channels; }
};

/// Convolution, relu, pooling; `map` becomes what comes out.
std::vector<LayerSpec> cnn_features(const std::string& name, const Flow& flow,
                                    std::int64_t channels, Map& map) {
  std::vector<LayerSpec> layers = {spec::convolution(name, flow, map.window(kSquare, 1), channels)};
  map = {map.side - kSquare + 1, channels};
  layers.push_back(spec::relu(name + ".relu", flow, map.values()));
  layers.push_back(spec::max_pool(name + ".pool", flow, map.window(kPool, kPool)));
  map.side = map.side / kPool;
  return layers;
}

LayerSpec cnn_linear(const std::string& name, const Flow& flow, std::int64_t in, std::int64_t out) {
  return spec::linear(name, flow,
                      {.in = in,
                       .out = out,
                       .weight = Transpose::Yes,
                       .bias = Bias::Add,
                       .deviation = 1.0f / std::sqrt(static_cast<float>(in))});
}

Graph build_cnn(const ModelShape& s, const Flow& flow, std::int64_t) {
  require(flow.cache == 0, "a cnn classifies images; it generates nothing");
  Flow rows = flow;  // a row for each image
  rows.sequence = 1;
  Map map{s.image, s.channels};
  Graph graph;
  graph.dtype = flow.dtype;
  graph.inputs = {{"patches", {"patches", flow.dtype, {flow.sequences, map.values()}}},
                  {"labels", {"labels", DType::I32, {flow.sequences}}, s.classes}};
  graph.segments = {{"first features", cnn_features("conv1", rows, kFirstChannels, map)}};
  graph.segments[0].layers[0].backward_input.clear();  // pixels want no gradient
  graph.segments.push_back(
      {"second features", cnn_features("conv2", rows, kSecondChannels, map), true});
  graph.segments.push_back(
      {"hidden",
       {spec::channels_first("flatten", rows, map.values(), map.channels),
        cnn_linear("fc1", rows, map.values(), s.ffn), spec::relu("fc1.relu", rows, s.ffn),
        cnn_linear("fc2", rows, s.ffn, s.hidden), spec::relu("fc2.relu", rows, s.hidden)},
       true});
  graph.segments.push_back(
      {"head",
       {cnn_linear("fc3", rows, s.hidden, s.classes), spec::class_loss("loss", rows, s.classes)}});
  graph.edges = {{{Graph::kData, "patches"}, {0, "x"}}, {{Graph::kData, "labels"}, {3, "labels"}}};
  join_in_order(graph);
  graph.results = {{"losses", {3, "y"}}};
  return graph;
}

void check_cnn(const ModelShape& s) {
  require(s.layers == 2 && s.heads == 1 && s.kv_heads == 1,
          "a cnn has model.layers 2 (and no "
          "attention: model.heads 1), not ",
          s.layers, " and ", s.heads);
  require(s.patch == 1, "model.patch is ", s.patch,
          ", and a cnn reads single pixels; leave it out");
  // Two rounds of the square and the pooling leave at least a pixel, and no rest is cut off.
  require(s.image >= 16 && s.image % 4 == 0, "model.image ", s.image,
          " does not go through two convolutions by 5 and poolings by 2; use a multiple of 4 from "
          "16 on");
}

constexpr ModelShape kLenet = {.kind = &cnn,
                               .layers = 2,
                               .hidden = 84,
                               .heads = 1,
                               .kv_heads = 1,
                               .ffn = 120,
                               .vocab = 10,
                               .context = 28 * 28 + 1,
                               .tie_embeddings = false,
                               .image = 28,
                               .patch = 1,
                               .channels = 1,
                               .classes = 10};

constexpr std::array<Preset, 1> kCnnPresets = {{
    {"cnn-fashion", kLenet, "two convolutions on grey images of 28 x 28, 44,426 parameters"},
}};

}  // namespace

constinit const Family cnn = {.name = "cnn",
                              .build = build_cnn,
                              .check = check_cnn,
                              .default_ffn = [](std::int64_t) { return std::int64_t{120}; },
                              .presets = kCnnPresets,
                              .reads_images = true,
                              .reads_tokens = false,
                              .reads_pixels = true,
                              .unread = kUnreadWithoutRotation};

}  // namespace cleave::model
