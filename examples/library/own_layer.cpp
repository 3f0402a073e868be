// A layer of your own, in a model that cleave trains and cuts over devices.
//
// The layer is LayerScale (Touvron et al. 2021): y = x · strength · gain, one learned gain per
// feature, at the end of each branch of a transformer block. cleave does not have it. Four things
// are needed:
//
//   1. a LayerSpec: what the layer has and keeps, before anything runs; with attributes of its own
//   2. a class derived from Layer: F, I and W
//   3. a model with the layer in it: a Graph is plain data, so insert it
//   4. a row in the table of layer kinds: its name, what may be done with it, its class
//
// From there on it is a layer like any other: its memory is planned, its gradient reduced, its
// weight saved under its name, and the model trains on any layout, with the same bits. What the row
// says decides how much of it a device computes along the tensor axis; a row that says nothing is
// right as well: every device of the group then computes the whole layer.

#include "train_with.h"

#include "cleave/layers/add_layer_kind.h"
#include "cleave/model/add_family.h"
#include "cleave/ops/parallel.h"

namespace cleave {
namespace {

// ---- 1. The layer as data
// -------------------------------------------------------------------------

/// What the layer needs to know beyond its shapes.
struct ScaleAttributes {
  float strength = 2;  ///< of every gain: larger ones learn faster

  friend bool operator==(const ScaleAttributes&, const ScaleAttributes&) = default;
};

LayerSpec layer_scale_spec(const std::string& name, DType dtype, std::int64_t rows,
                           std::int64_t features) {
  LayerSpec spec;
  spec.kind = "layer_scale";
  spec.name = name;
  spec.x = {"x", dtype, {rows, features}};
  spec.y = {"y", dtype, {rows, features}};
  spec.attributes = ScaleAttributes{};
  // W computes Σ dy · x over the tokens, so both must live until then. Whatever is not declared
  // here is gone, or overwritten, by the time W runs: with a zero-bubble schedule that is much
  // later than I.
  spec.x_until = Until::Weight;
  spec.dy_until = Until::Weight;
  const std::string gain = name + ".gain";
  spec.parameters = {{.name = gain,
                      .shape = {features},
                      .init = {.mean = 0.25f, .deviation = 0},
                      .decay = Decay::No,
                      .pieces = {{gain, 0, features}}}};
  return spec;
}

// ---- 2. The layer as code
// -------------------------------------------------------------------------

/// y = x · strength · gain; x, y [tokens, features], gain [features]. f32 only.
class LayerScale : public Layer {
 public:
  using Layer::Layer;

  void forward(ops::Compute& compute, const LayerCall& call) override {
    scale_rows(compute, call.x, call.y);
  }

  /// dx = dy · strength · gain
  void backward_input(ops::Compute& compute, const LayerCall& call) override {
    scale_rows(compute, call.dy, call.dx);
  }

  /// dgain[f] += strength · Σ dy[t, f] · x[t, f]. Threads divide the features, so that every sum
  /// runs over the tokens in their order, however many threads there are.
  void backward_weight(ops::Compute& compute, const LayerCall& call) override {
    const float* x = call.x.as<float>();
    const float* dy = call.dy.as<float>();
    float* sums = gradient(0, call).as<float>();
    const float strength = spec().as<ScaleAttributes>().strength;
    const std::int64_t tokens = call.x.size(0);
    const std::int64_t features = call.x.size(1);
    ops::parallel_for(compute, features, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t f = begin; f < end; ++f) {
        float sum = 0;
        for (std::int64_t t = 0; t < tokens; ++t) sum += dy[t * features + f] * x[t * features + f];
        sum *= strength;
        // The first microbatch of a step overwrites: gradients are never cleared.
        sums[f] = call.gradient == Write::Overwrite ? sum : sums[f] + sum;
      }
    });
  }

 private:
  void scale_rows(ops::Compute& compute, ConstView from, View to) {
    const float* gain = parameter(0).value.as<float>();
    const float strength = spec().as<ScaleAttributes>().strength;
    const float* in = from.as<float>();
    float* out = to.as<float>();
    const std::int64_t features = from.size(1);
    ops::parallel_for(compute, from.size(0), 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        for (std::int64_t f = 0; f < features; ++f) {
          out[t * features + f] = in[t * features + f] * (strength * gain[f]);
        }
      }
    });
  }
};

// ---- 3. The model
// ---------------------------------------------------------------------------------

/// A GPT with a LayerScale before every residual connection.
Graph build_scaled_gpt(const ModelShape& shape, const spec::Flow& flow, std::int64_t loss_blocks) {
  Graph graph = model::gpt.build(shape, flow, loss_blocks);
  for (SegmentSpec& segment : graph.segments) {
    std::vector<LayerSpec> layers;
    std::vector<int> moved;  // where each layer of the block is now
    for (LayerSpec& layer : segment.layers) {
      if (layer.kind == "residual") {
        layers.push_back(layer_scale_spec(layer.name + ".scale", graph.dtype, layer.x.shape[0],
                                          layer.x.shape[1]));
        layer.skip = moved[layer.skip];  // a residual names the layer whose x it adds
      }
      moved.push_back(static_cast<int>(layers.size()));
      layers.push_back(std::move(layer));
    }
    segment.layers = std::move(layers);
  }
  return graph;
}

constexpr model::Family kScaledGpt = {
    .name = "scaled-gpt", .build = build_scaled_gpt, .default_ffn = [](std::int64_t hidden) {
      return 2 * hidden;
    }};

// ---- 4. The row
// -----------------------------------------------------------------------------------

/// Every row of y depends on the same row of x alone, so with sequence parallelism a device
/// computes its own rows. The gains' gradients are then summed in slices of rows, the same on every
/// layout.
LayerKind layer_scale_kind() {
  const auto with_rows = [](const LayerSpec& whole, std::int64_t rows) {
    return layer_scale_spec(whole.name, whole.y.dtype, rows, whole.y.shape[1]);
  };
  return layer_kind<LayerScale>("layer_scale", {.with_rows = with_rows});
}

}  // namespace
}  // namespace cleave

int main() {
  cleave::add_layer_kind(cleave::layer_scale_kind());
  cleave::model::add_family(cleave::kScaledGpt);

  const auto one = example::train_with({"model.kind=scaled-gpt"});
  const auto four = example::train_with({"model.kind=scaled-gpt", "parallel.pipeline=2",
                                         "parallel.tensor=2", "parallel.sequence_parallel=true"});
  return example::check(one, four);
}
