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

#include <cstdio>
#include <mutex>

#include "cleave/comm/local/local_world.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/layers/layer_kinds.h"
#include "cleave/model/family.h"
#include "cleave/ops/parallel.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave {
namespace {

constexpr int kSteps = 80;
constexpr int kMicrobatches = 4;
constexpr std::int64_t kVocabulary = 64;

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

/// A small GPT with a LayerScale before every residual connection.
Graph scaled_gpt() {
  Graph graph = model::graph_of({.kind = &model::gpt,
                                 .layers = 4,
                                 .hidden = 64,
                                 .heads = 4,
                                 .kv_heads = 4,
                                 .ffn = 128,
                                 .vocab = kVocabulary,
                                 .context = 32},
                                {.sequences = 4, .sequence = 32, .dtype = DType::F32});
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

// ---- 4. The row
// -----------------------------------------------------------------------------------

/// Every row of y depends on the same row of x alone, so with sequence parallelism a device
/// computes its own rows. The gains' gradients are then summed in slices of rows, the same on every
/// layout.
LayerKinds own_kinds() {
  const auto with_rows = [](const LayerSpec& whole, std::int64_t rows) {
    return layer_scale_spec(whole.name, whole.y.dtype, rows, whole.y.shape[1]);
  };
  LayerKinds kinds;
  kinds.add(layer_kind<LayerScale>("layer_scale", {.with_rows = with_rows}));
  return kinds;
}

// ---- Training
// -------------------------------------------------------------------------------------

/// Something to learn: every token follows from the one before.
class Sequences : public engine::MicrobatchSource {
 public:
  explicit Sequences(int step) : step_(step) {}
  void load(int microbatch, std::string_view input, View ids) override {
    std::int64_t token = (step_ * kMicrobatches + microbatch) * 7 % kVocabulary;
    if (input == "targets") token = (token * 5 + 3) % kVocabulary;
    for (std::int64_t i = 0; i < ids.elements(); ++i) {
      ids.as<std::int32_t>()[i] = static_cast<std::int32_t>(token);
      token = (token * 5 + 3) % kVocabulary;
    }
  }

 private:
  int step_;
};

struct Outcome {
  double first_loss = 0;
  double last_loss = 0;
  std::string weights;  ///< hash
};

/// Trains the model on as many devices as the layout has, threads of this process.
Outcome train_on(const engine::Layout& layout) {
  const LayerKinds kinds = own_kinds();
  const Graph graph = scaled_gpt();
  const engine::CompiledStep step = engine::compile(
      graph, {.layout = layout, .microbatches = kMicrobatches, .tensor_shards = 2, .kinds = kinds});

  Outcome outcome;
  std::mutex mutex;
  std::vector<std::pair<std::string, std::uint64_t>> hashes;
  comm::run_devices(step.devices(), [&](comm::Communicator& world) {
    engine::Device device(step, world.rank(), 1, world, kinds);
    device.initialise(1);
    train::RunOptimizer optimizer({.steps = kSteps, .lr = 3e-3, .warmup = 10});
    const float loss_scale = 1.0f / static_cast<float>(kMicrobatches * loss_count(graph));
    for (int s = 0; s < kSteps; ++s) {
      Sequences source(s);
      optimizer.begin_step(s);
      const engine::StepResult result = device.executor().run(
          {.source = &source, .optimizer = &optimizer, .loss_scale = loss_scale});
      if (world.rank() != 0) continue;
      if (s == 0) outcome.first_loss = result.loss;
      outcome.last_loss = result.loss;
    }
    const std::lock_guard lock(mutex);
    for (auto& hash : device.weight_hashes()) hashes.push_back(std::move(hash));
  });
  outcome.weights = engine::combine_hashes(hashes);
  return outcome;
}

}  // namespace
}  // namespace cleave

int main() {
  using cleave::Outcome;
  using cleave::train_on;
  const Outcome one = train_on({});
  std::printf("1 device:  loss %.4f -> %.4f, weights %s\n", one.first_loss, one.last_loss,
              one.weights.c_str());
  const Outcome four = train_on({.pipeline = 2, .tensor = 2, .sequence_parallel = true});
  std::printf("4 devices: loss %.4f -> %.4f, weights %s\n", four.first_loss, four.last_loss,
              four.weights.c_str());

  // What this example promises, so that it can be run as a test.
  const bool learned = one.last_loss < 0.5 * one.first_loss;
  const bool same = one.weights == four.weights;
  if (!learned) std::printf("the loss did not fall by half\n");
  if (!same) std::printf("the weights depend on the layout\n");
  return learned && same ? 0 : 1;
}
